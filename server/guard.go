package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guard keeps web pages away from h. A page may send requests to whatever its browser
// reaches, this machine's own ports included. Those from another origin are refused;
// and since a page can give its own name the address of this machine, a listener on
// loopback is also picky about the name it is called by. Programs send no Origin, and
// call it as they like; strict asks the name of them too.
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

// isLoopback reports whether only this machine reaches an address.
func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
