package handler

import (
	"fmt"
	"net/url"
	"strings"
)

// target returns an address of a node as a gRPC library writes it, and whether connections to it are encrypted. With
// wantsTLS, connections to host:port are.
func target(address string, wantsTLS bool) (target string, secure bool, err error) {
	if strings.HasPrefix(address, "unix:") && address != "unix:" {
		return address, false, nil
	}
	host, secure := address, wantsTLS
	if strings.Contains(address, "://") {
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
			return "", false, fmt.Errorf("%.80q is no URL of http or https without a path and a user", address)
		}
		host, secure = u.Host, u.Scheme == "https"
		switch {
		case wantsTLS && !secure:
			return "", false, fmt.Errorf("%.80q is a URL of http, and the worker has settings of TLS; write https", address)
		case u.Port() == "" && secure:
			host += ":443"
		case u.Port() == "":
			host += ":80"
		}
	}
	if host == "" || host == "unix:" || strings.HasPrefix(host, ":") || strings.ContainsAny(host, " /@") {
		return "", false, fmt.Errorf("%.80q is not the address of a node: give host:port, http://host:port, https://host:port, or unix: and a path", address)
	}
	return "dns:///" + host, secure, nil
}
