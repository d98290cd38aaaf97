module skeleton

go 1.19
