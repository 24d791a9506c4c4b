// Package address reads the addresses of nodes.
package address

import (
	"net/url"
	"strings"
)

// URL returns the URL without a trailing slash of an address, which is host:port or a URL of http
// or https. It returns false for any other text.
func URL(address string) (string, bool) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", false
	}
	return strings.TrimSuffix(u.String(), "/"), true
}
