package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// private restricts access to h, whose responses contain tasks. Requests must carry the token or, if token is empty, come
// from this machine.
func private(token string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case token != "" && !sends(r, token):
			w.Header().Set("WWW-Authenticate", `Bearer realm="taskengine"`)
			http.Error(w, "this path needs the token of the configuration's admin.token: send Authorization: Bearer TOKEN", http.StatusUnauthorized)
		case token == "" && !isLocal(r):
			http.Error(w, "this path hands out tasks, and answers callers on this machine alone; for others set admin.token in the configuration of the node", http.StatusForbidden)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// sends reports whether a request carries the token. It takes the same time whatever was sent.
func sends(r *http.Request, token string) bool {
	scheme, sent, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	a, b := sha256.Sum256([]byte(sent)), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// isLocal reports whether a request comes from this machine and was not forwarded by a proxy on it.
func isLocal(r *http.Request) bool {
	if r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != "" {
		return false
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	if ip := from.Addr().Unmap(); ip.IsLoopback() {
		return true
	}
	// A request of this machine to its own network address comes from that address.
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && local.AddrPort().Addr().Unmap() == from.Addr().Unmap()
}
