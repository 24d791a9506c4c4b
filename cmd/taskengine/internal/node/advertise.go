package node

import (
	"net"
	"strings"

	"github.com/taskengine/taskengine/config"
)

// advertised returns the URL at which other nodes reach the API, which listens at an address; "" if it has none.
func advertised(c config.Listener, at string, hostname func() (string, error)) string {
	switch to := c.Advertise; {
	case to == config.AdvertiseNone, to == "" && at == "":
		return ""
	case strings.Contains(to, "://"):
		return strings.TrimRight(to, "/")
	case to != "":
		at = to
		if host, port, err := net.SplitHostPort(to); err == nil {
			at = net.JoinHostPort(host, port) // without the brackets around an address of IPv4, which a URL may not have
		}
	default:
		at = reachable(c.Listen, at, hostname)
	}
	if c.TLS.Cert != "" {
		return "https://" + at
	}
	return "http://" + at
}

// reachable returns the address at which other machines reach a listener: the configured host with the actual port, and the
// name of the machine in place of every interface.
func reachable(listen, at string, hostname func() (string, error)) string {
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		return at
	}
	host, _, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err != nil || host == "" || ip != nil && ip.IsUnspecified() {
		if host, err = hostname(); err != nil {
			host = "localhost"
		}
	}
	return net.JoinHostPort(host, port)
}
