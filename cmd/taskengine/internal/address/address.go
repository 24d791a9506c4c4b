// Package address reads the addresses of nodes.
package address

import (
	"net/url"
	"strings"
)

// Socket returns the path of a Unix socket, if an address is unix: and a path.
func Socket(address string) (path string, ok bool) {
	path, ok = strings.CutPrefix(address, "unix:")
	return path, ok && path != ""
}

// URL returns the URL without a trailing slash of an address, which is host:port or a URL of http
// or https. It returns false for any other text. If it is secure, host:port is one of https, and a
// URL of http is refused.
func URL(address string, secure bool) (string, bool) {
	if !strings.Contains(address, "://") && secure {
		address = "https://" + address
	} else if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || secure) {
		return "", false
	}
	return strings.TrimSuffix(u.String(), "/"), true
}
