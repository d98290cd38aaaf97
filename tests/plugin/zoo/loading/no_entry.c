/* A shared object without the entry symbol. */
int not_an_entry(void);
int not_an_entry(void) { return 0; }
