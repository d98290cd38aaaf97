/*
 * Functions that Debian's libcurl.a refers to and kubectl-egpu never calls, because it uses HTTP/1.1 without
 * compression, cookies and Kerberos. Debian has no static library of Kerberos. The linker names a function that is
 * missing here.
 */
#include <stdio.h>
#include <stdlib.h>

static _Noreturn void end(const char* name) {
  fprintf(stderr, "error: kubectl-egpu is linked without %s\n", name);
  abort();
}

/* Every call of libcurl.a fits, because the function never returns. */
#define EGPU_UNUSED(name) \
  void name(void);        \
  void name(void) { end(#name); }

/* libcurl calls these three in any case. A null version means that names beyond ASCII are not converted. */
int libssh2_init(int flags);
int libssh2_init(int flags) {
  (void)flags;
  return 0;
}
void libssh2_exit(void);
void libssh2_exit(void) {}
const char* idn2_check_version(const char* wanted);
const char* idn2_check_version(const char* wanted) {
  (void)wanted;
  return NULL;
}

/* HTTP/2 */
EGPU_UNUSED(nghttp2_http2_strerror)
EGPU_UNUSED(nghttp2_is_fatal)
EGPU_UNUSED(nghttp2_option_del)
EGPU_UNUSED(nghttp2_option_new)
EGPU_UNUSED(nghttp2_option_set_no_rfc9113_leading_and_trailing_ws_validation)
EGPU_UNUSED(nghttp2_pack_settings_payload)
EGPU_UNUSED(nghttp2_priority_spec_init)
EGPU_UNUSED(nghttp2_session_callbacks_del)
EGPU_UNUSED(nghttp2_session_callbacks_new)
EGPU_UNUSED(nghttp2_session_callbacks_set_error_callback)
EGPU_UNUSED(nghttp2_session_callbacks_set_on_begin_headers_callback)
EGPU_UNUSED(nghttp2_session_callbacks_set_on_data_chunk_recv_callback)
EGPU_UNUSED(nghttp2_session_callbacks_set_on_frame_recv_callback)
EGPU_UNUSED(nghttp2_session_callbacks_set_on_header_callback)
EGPU_UNUSED(nghttp2_session_callbacks_set_on_stream_close_callback)
EGPU_UNUSED(nghttp2_session_callbacks_set_send_callback)
EGPU_UNUSED(nghttp2_session_check_request_allowed)
EGPU_UNUSED(nghttp2_session_client_new2)
EGPU_UNUSED(nghttp2_session_del)
EGPU_UNUSED(nghttp2_session_get_remote_settings)
EGPU_UNUSED(nghttp2_session_get_remote_window_size)
EGPU_UNUSED(nghttp2_session_get_stream_remote_window_size)
EGPU_UNUSED(nghttp2_session_get_stream_user_data)
EGPU_UNUSED(nghttp2_session_mem_recv)
EGPU_UNUSED(nghttp2_session_resume_data)
EGPU_UNUSED(nghttp2_session_send)
EGPU_UNUSED(nghttp2_session_set_local_window_size)
EGPU_UNUSED(nghttp2_session_set_stream_user_data)
EGPU_UNUSED(nghttp2_session_upgrade2)
EGPU_UNUSED(nghttp2_session_want_read)
EGPU_UNUSED(nghttp2_session_want_write)
EGPU_UNUSED(nghttp2_strerror)
EGPU_UNUSED(nghttp2_submit_ping)
EGPU_UNUSED(nghttp2_submit_priority)
EGPU_UNUSED(nghttp2_submit_request)
EGPU_UNUSED(nghttp2_submit_rst_stream)
EGPU_UNUSED(nghttp2_submit_settings)
EGPU_UNUSED(nghttp2_version)

/* Kerberos */
EGPU_UNUSED(gss_delete_sec_context)
EGPU_UNUSED(gss_display_name)
EGPU_UNUSED(gss_display_status)
EGPU_UNUSED(gss_import_name)
EGPU_UNUSED(gss_init_sec_context)
EGPU_UNUSED(gss_inquire_context)
EGPU_UNUSED(gss_release_buffer)
EGPU_UNUSED(gss_release_name)
EGPU_UNUSED(gss_unwrap)
EGPU_UNUSED(gss_wrap)
extern void* GSS_C_NT_HOSTBASED_SERVICE;
void* GSS_C_NT_HOSTBASED_SERVICE = NULL;

/* LDAP */
EGPU_UNUSED(ber_bvfree)
EGPU_UNUSED(ber_free)
EGPU_UNUSED(ber_memfree)
EGPU_UNUSED(ber_memvfree)
EGPU_UNUSED(ber_sockbuf_add_io)
EGPU_UNUSED(ldap_abandon_ext)
EGPU_UNUSED(ldap_err2string)
EGPU_UNUSED(ldap_free_urldesc)
EGPU_UNUSED(ldap_get_attribute_ber)
EGPU_UNUSED(ldap_get_dn_ber)
EGPU_UNUSED(ldap_get_option)
EGPU_UNUSED(ldap_init_fd)
EGPU_UNUSED(ldap_memfree)
EGPU_UNUSED(ldap_msgfree)
EGPU_UNUSED(ldap_msgtype)
EGPU_UNUSED(ldap_parse_result)
EGPU_UNUSED(ldap_parse_sasl_bind_result)
EGPU_UNUSED(ldap_pvt_url_scheme2proto)
EGPU_UNUSED(ldap_result)
EGPU_UNUSED(ldap_sasl_bind)
EGPU_UNUSED(ldap_search_ext)
EGPU_UNUSED(ldap_set_option)
EGPU_UNUSED(ldap_start_tls)
EGPU_UNUSED(ldap_unbind_ext)
EGPU_UNUSED(ldap_url_parse)

/* SSH */
EGPU_UNUSED(libssh2_agent_connect)
EGPU_UNUSED(libssh2_agent_disconnect)
EGPU_UNUSED(libssh2_agent_free)
EGPU_UNUSED(libssh2_agent_get_identity)
EGPU_UNUSED(libssh2_agent_init)
EGPU_UNUSED(libssh2_agent_list_identities)
EGPU_UNUSED(libssh2_agent_userauth)
EGPU_UNUSED(libssh2_channel_free)
EGPU_UNUSED(libssh2_channel_read_ex)
EGPU_UNUSED(libssh2_channel_send_eof)
EGPU_UNUSED(libssh2_channel_wait_closed)
EGPU_UNUSED(libssh2_channel_wait_eof)
EGPU_UNUSED(libssh2_channel_write_ex)
EGPU_UNUSED(libssh2_hostkey_hash)
EGPU_UNUSED(libssh2_knownhost_add)
EGPU_UNUSED(libssh2_knownhost_checkp)
EGPU_UNUSED(libssh2_knownhost_del)
EGPU_UNUSED(libssh2_knownhost_free)
EGPU_UNUSED(libssh2_knownhost_get)
EGPU_UNUSED(libssh2_knownhost_init)
EGPU_UNUSED(libssh2_knownhost_readfile)
EGPU_UNUSED(libssh2_knownhost_writefile)
EGPU_UNUSED(libssh2_scp_recv2)
EGPU_UNUSED(libssh2_scp_send64)
EGPU_UNUSED(libssh2_session_abstract)
EGPU_UNUSED(libssh2_session_block_directions)
EGPU_UNUSED(libssh2_session_callback_set)
EGPU_UNUSED(libssh2_session_disconnect_ex)
EGPU_UNUSED(libssh2_session_flag)
EGPU_UNUSED(libssh2_session_free)
EGPU_UNUSED(libssh2_session_handshake)
EGPU_UNUSED(libssh2_session_hostkey)
EGPU_UNUSED(libssh2_session_init_ex)
EGPU_UNUSED(libssh2_session_last_errno)
EGPU_UNUSED(libssh2_session_last_error)
EGPU_UNUSED(libssh2_session_method_pref)
EGPU_UNUSED(libssh2_session_set_blocking)
EGPU_UNUSED(libssh2_sftp_close_handle)
EGPU_UNUSED(libssh2_sftp_init)
EGPU_UNUSED(libssh2_sftp_last_error)
EGPU_UNUSED(libssh2_sftp_mkdir_ex)
EGPU_UNUSED(libssh2_sftp_open_ex)
EGPU_UNUSED(libssh2_sftp_read)
EGPU_UNUSED(libssh2_sftp_readdir_ex)
EGPU_UNUSED(libssh2_sftp_rename_ex)
EGPU_UNUSED(libssh2_sftp_rmdir_ex)
EGPU_UNUSED(libssh2_sftp_seek64)
EGPU_UNUSED(libssh2_sftp_shutdown)
EGPU_UNUSED(libssh2_sftp_stat_ex)
EGPU_UNUSED(libssh2_sftp_statvfs)
EGPU_UNUSED(libssh2_sftp_symlink_ex)
EGPU_UNUSED(libssh2_sftp_unlink_ex)
EGPU_UNUSED(libssh2_sftp_write)
EGPU_UNUSED(libssh2_userauth_authenticated)
EGPU_UNUSED(libssh2_userauth_keyboard_interactive_ex)
EGPU_UNUSED(libssh2_userauth_list)
EGPU_UNUSED(libssh2_userauth_password_ex)
EGPU_UNUSED(libssh2_userauth_publickey_fromfile_ex)
EGPU_UNUSED(libssh2_version)

/* RTMP */
EGPU_UNUSED(RTMP_Alloc)
EGPU_UNUSED(RTMP_Close)
EGPU_UNUSED(RTMP_Connect1)
EGPU_UNUSED(RTMP_ConnectStream)
EGPU_UNUSED(RTMP_Free)
EGPU_UNUSED(RTMP_Init)
EGPU_UNUSED(RTMP_Read)
EGPU_UNUSED(RTMP_SetBufferMS)
EGPU_UNUSED(RTMP_SetupURL)
EGPU_UNUSED(RTMP_Write)

/* compressed answers */
EGPU_UNUSED(BrotliDecoderCreateInstance)
EGPU_UNUSED(BrotliDecoderDecompressStream)
EGPU_UNUSED(BrotliDecoderDestroyInstance)
EGPU_UNUSED(BrotliDecoderGetErrorCode)
EGPU_UNUSED(BrotliDecoderVersion)
EGPU_UNUSED(ZSTD_createDStream)
EGPU_UNUSED(ZSTD_decompressStream)
EGPU_UNUSED(ZSTD_freeDStream)
EGPU_UNUSED(ZSTD_isError)
EGPU_UNUSED(ZSTD_versionNumber)

/* cookies' domains */
EGPU_UNUSED(psl_builtin)
EGPU_UNUSED(psl_free)
EGPU_UNUSED(psl_get_version)
EGPU_UNUSED(psl_is_cookie_domain_acceptable)
EGPU_UNUSED(psl_latest)

/* names beyond ASCII */
EGPU_UNUSED(idn2_free)
EGPU_UNUSED(idn2_lookup_ul)
