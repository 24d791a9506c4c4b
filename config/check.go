package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/internal/suggest"
	"github.com/taskengine/taskengine/internal/units"
	"github.com/taskengine/taskengine/policy"
)

// check compares the parts of the configuration with each other.
func (d *decoder) check() {
	handlers := slices.Sorted(maps.Keys(d.cfg.Handlers))
	for _, name := range slices.Sorted(maps.Keys(d.cfg.Types)) {
		want := d.cfg.Types[name].Handler
		if _, ok := d.cfg.Handlers[want]; ok {
			continue
		}
		if e := d.cfg.tree.find("handlers").child(want); e != nil {
			continue // it exists and has problems of its own
		}
		advice := "add it to handlers"
		if near := suggest.Nearest(want, handlers); near != "" {
			advice += fmt.Sprintf(", or did you mean %s?", near)
		} else if len(handlers) > 0 {
			advice += ", or name " + suggest.Either(handlers)
		}
		d.conflict([]string{"types", name, "handler"}, fmt.Sprintf("there is no handler %q; %s", want, advice))
	}
	for _, name := range handlers {
		if p := d.cfg.Handlers[name].Plugin; p != nil && p.Processes.Min > p.Processes.Max {
			d.conflict([]string{"handlers", name, "processes", "min"},
				fmt.Sprintf("there are to be at least %d processes and at most %d; raise max", p.Processes.Min, p.Processes.Max))
		}
	}
	d.storage()
	d.ui()
	d.listeners()
	d.encoding()
	d.kafka()
	d.splits(handlers)
	d.results()
	d.alerts()
	d.schedules()
	d.workflows()
	d.sources()
	set := d.cfg.Policies()
	d.depth(set.Limits)
	for _, p := range set.Check() {
		d.conflict(p.Path, p.Text)
	}
}

// listeners refuses two listeners on one port, and an API that lets in every machine, or every user of this one.
func (d *decoder) listeners() {
	if api := d.cfg.API; api.Listen != "" && !isOwnHost(api.Listen) && !api.AsksClients() && !api.Insecure {
		d.conflict([]string{"api", "listen"}, fmt.Sprintf("%s can be reached from other machines, and every client may do everything; give clients tokens (api.tokens, taskengine token create) or certificates (api.tls.client_ca), or listen on 127.0.0.1, or write api.insecure: true if something else protects the port", api.Listen))
	}
	if d.cfg.API.Tokens != "" && d.cfg.API.Clients&0o006 != 0 {
		d.conflict([]string{"api", "socket_clients"}, "is all, and clients on the socket may do everything without a token of api.tokens; write owner or group")
	}
	if samePort(d.cfg.API.Listen, d.cfg.Admin.Listen) {
		d.conflict([]string{"admin", "listen"}, fmt.Sprintf("is the port of api.listen, which is %s; give one of them another port", d.cfg.API.Listen))
	}
}

// samePort reports whether only one of two addresses can be listened on.
func samePort(a, b string) bool {
	host, port, err := net.SplitHostPort(a)
	other, otherPort, otherErr := net.SplitHostPort(b)
	if err != nil || otherErr != nil || port != otherPort || port == "0" {
		return false // the system chooses a port for 0
	}
	return anyHost(host) || anyHost(other) || plainHost(host) == plainHost(other)
}

// isOwnHost reports whether an address is reachable from this machine only.
func isOwnHost(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	host = strings.ToLower(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// anyHost reports whether a host stands for every address of this machine.
func anyHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// plainHost returns a host in a normal form: equal hosts have equal texts.
func plainHost(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	}
	if host = strings.ToLower(host); host == "127.0.0.1" || host == "::1" {
		return "localhost"
	}
	return host
}

// results refuses handlers that may return more than the types that they run may keep.
func (d *decoder) results() {
	for _, typ := range slices.Sorted(maps.Keys(d.cfg.Types)) {
		t := d.cfg.Types[typ]
		names := append(slices.Sorted(maps.Keys(d.cfg.Handlers[t.Handler].Split)), t.Handler)
		for _, name := range names {
			path, most := []string{"handlers", name}, 0
			switch h := d.cfg.Handlers[name]; {
			case h.Exec != nil:
				path, most = append(path, "max_output"), h.Exec.MaxOutput
			case h.HTTP != nil:
				path, most = append(path, "http", "max_response"), h.HTTP.MaxResponse
			}
			if most > t.ResultLimit() {
				d.conflict(path, fmt.Sprintf("allows %s, but max_result of type %s only %s, and a larger result is an error after the work is done; lower it, or raise types.%s.max_result",
					units.ShowSize(most), typ, units.ShowSize(t.ResultLimit()), typ))
			}
		}
	}
}

// splits refuses splits that name no handler which runs tasks, or give no handler a weight.
func (d *decoder) splits(handlers []string) {
	for _, name := range handlers {
		split, total := d.cfg.Handlers[name].Split, 0
		if split == nil {
			continue
		}
		for _, other := range slices.Sorted(maps.Keys(split)) {
			total += split[other]
			path := []string{"handlers", name, "split", other}
			switch h, found := d.cfg.Handlers[other]; {
			case !found && d.cfg.tree.find("handlers").child(other) == nil:
				d.conflict(path, fmt.Sprintf("there is no handler %q; add it to handlers", other))
			case h.Split != nil:
				d.conflict(path, "divides tasks itself; name a handler that runs them")
			}
		}
		if total == 0 {
			d.conflict([]string{"handlers", name, "split"}, "gives no handler a part of the tasks; give one a weight above 0")
		}
	}
}

// maxDepth is how deeply limits may be nested. Every start of a task counts in all limits above
// it.
const maxDepth = 16

// depth refuses limits that are nested too deeply, and removes their parent.
func (d *decoder) depth(limits map[string]policy.Limit) {
	var deep []string
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		steps, up := 0, limits[name].Of
		for up != "" && up != name && steps <= maxDepth {
			steps, up = steps+1, limits[up].Of
		}
		if steps > maxDepth {
			deep = append(deep, name)
			d.conflict([]string{"limits", name, "of"},
				fmt.Sprintf("more than %d limits stand above this one, or they form a circle; leave some of them out", maxDepth))
		}
	}
	for _, name := range deep {
		l := limits[name]
		l.Of = ""
		limits[name] = l
	}
}

// conflict records a problem with the value at a path, unless the value has one already.
func (d *decoder) conflict(path []string, what string) {
	if at := d.cfg.tree.locate(path); !d.found.at(at) {
		d.found.add(at, "%s: %s", joinPath(path), what)
	}
}

// child returns the entry of a key in the value of e; nil if there is none, or no e.
func (e *entry) child(key string) *entry {
	if e == nil {
		return nil
	}
	return e.value.find(key)
}

// locate returns the place of the value at a path, or else of the key of its nearest parent.
func (n *node) locate(path []string) position {
	at := n.at
	for i, part := range path {
		if n.kind == list {
			for j, item := range n.items {
				if fmt.Sprint(j) == part {
					return item.at
				}
			}
			return at
		}
		e := n.find(part)
		if e == nil {
			return at
		}
		if at, n = e.at, e.value; i == len(path)-1 {
			return n.at
		}
		if n.kind == scalar { // the short form of a list of one
			return n.at
		}
	}
	return at
}
