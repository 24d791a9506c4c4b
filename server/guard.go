package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guard protects h against web pages. A page can send requests to every address that its browser reaches, such as ports
// of this machine. Requests from another origin are refused. A page can also give its own host name the address of this
// machine (DNS rebinding), so a listener on loopback refuses requests of browsers to any other name than that of
// loopback. Programs send no Origin and may use any name, unless strict.
func guard(h http.Handler, loopback, strict bool) http.Handler {
	h = http.NewCrossOriginProtection().Handler(h)
	if !loopback {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if (strict || fromBrowser(r)) && !localName(r.Host) {
			http.Error(w, fmt.Sprintf("this listener is on loopback and does not know the name %.80q; call it localhost", r.Host), http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func fromBrowser(r *http.Request) bool {
	return r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
}

// localName reports whether a Host header can only mean this machine.
func localName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// isLoopback reports whether an address is reachable from this machine only.
func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback() || a.Network() == "unix"
}
