package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/taskengine/taskengine/internal/access"
)

// private restricts access to h, since its responses contain tasks, see [AdminConfig.Token]. It writes an audit line for
// each request with this verb.
func (c *AdminConfig) private(verb string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, code, problem := c.admits(r)
		c.note(r, verb, who, problem)
		if problem == "" {
			h.ServeHTTP(w, r)
			return
		}
		if code == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="taskengine"`)
		}
		http.Error(w, problem, code)
	})
}

// byAdminToken is the author of a request with admin.token, in audit lines.
const byAdminToken = "admin.token"

// admits returns the author of a request to a private path, and why it is refused; "" if it is not.
func (c *AdminConfig) admits(r *http.Request) (who string, code int, problem string) {
	if c.Token != "" && sends(r, c.Token) {
		return byAdminToken, 0, ""
	}
	if c.Tokens != nil {
		t, err := c.Tokens().Check(access.HashOf(access.Bearer(r.Header.Get("Authorization"))))
		switch {
		case errors.Is(err, access.ErrDoubt):
			return access.Unknown, http.StatusServiceUnavailable, err.Error()
		case err == nil:
			if t.May(access.Admin) && t.IsForAll() {
				return t.Name, 0, ""
			}
			return t.Name, http.StatusForbidden, "this path hands out tasks of all types, and needs a token with the role admin for all types, or that of admin.token"
		}
	}
	switch {
	case c.Tokens != nil:
		return access.Unknown, http.StatusUnauthorized, "this path hands out tasks: send Authorization: Bearer TOKEN, with a token of the role admin for all types, or that of admin.token in the configuration of the node"
	case c.Token != "":
		return access.Unknown, http.StatusUnauthorized, "this path needs the token of the configuration's admin.token: send Authorization: Bearer TOKEN"
	case c.Distrusts:
		return access.Unknown, http.StatusForbidden, "this path hands out tasks, and a handler of the node has a user of its own, which must not get them: set admin.token in the configuration of the node, and send it"
	case !isLocal(r):
		return access.Unknown, http.StatusForbidden, "this path hands out tasks, and answers callers on this machine alone; for others set admin.token in the configuration of the node"
	}
	return access.Local, 0, ""
}

// note writes the audit line of a request, before it is answered.
func (c *AdminConfig) note(r *http.Request, verb, who, problem string) {
	if c.Audit == nil {
		return
	}
	attributes := []slog.Attr{slog.String("who", who), slog.String("from", r.RemoteAddr), slog.String("verb", verb), slog.String("outcome", "ok")}
	if problem != "" {
		attributes[3] = slog.String("outcome", "permission_denied")
		attributes = append(attributes, slog.String("error", problem))
	} else if verb != verbBackup {
		attributes = append(attributes, slog.Any("what", map[string]any{"path": cutText(r.URL.Path)}))
	}
	c.Audit.LogAttrs(context.WithoutCancel(r.Context()), slog.LevelInfo, "audit", attributes...)
}

// sends reports whether a request carries the token. It takes the same time for every token.
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
