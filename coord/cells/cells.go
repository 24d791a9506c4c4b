package cells

import (
	"net/url"
	"strings"
	"time"
)

// The keys. A name in a key is escaped, so that it has no slash and no control character, and is not empty.
const (
	live       = "live/" // begins all keys that are watched
	memberKey  = live + "member/"
	roleKey    = live + "role/"
	holderKey  = live + "holder/"
	permitKey  = live + "permit/"
	settingKey = live + "setting/"
	rateKey    = "rate/"
	identity   = "identity"
)

// Members begins the keys of the cells of members.
const Members = memberKey

// Folders returns the first parts of the keys of cells, without the slash that follows: for stores that have folders.
func Folders() []string {
	return []string{
		strings.TrimSuffix(memberKey, "/"), strings.TrimSuffix(roleKey, "/"), strings.TrimSuffix(holderKey, "/"),
		strings.TrimSuffix(permitKey, "/"), strings.TrimSuffix(settingKey, "/"), strings.TrimSuffix(rateKey, "/"),
	}
}

// escape returns a name as a part of a key.
func escape(name string) string { return "=" + url.PathEscape(name) }

// unescape returns the name that escape has made a part of a key.
func unescape(part string) string {
	name, _ := url.PathUnescape(strings.TrimPrefix(part, "=")) // a name that another program wrote is none of ours
	return name
}

// update applies the report of a watch.
func (n *Node) update(w *watching, u Update) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.follows(w, u) {
		return
	}
	if u.Whole {
		there := make(map[string]bool, len(u.Cells))
		for _, c := range u.Cells {
			there[c.Key] = true
		}
		for key, c := range n.cells {
			if c.Exists() && c.Version <= u.At && !there[key] {
				u.Cells = append(u.Cells, Cell{Key: key, Version: max(u.At, c.Version+1)})
			}
		}
	}
	for _, c := range u.Cells {
		n.learn(c)
	}
	if u.Whole && !n.seen {
		n.seen = true
		n.wakeMembers()
		n.wakeWatches()
	}
	n.bury()
	n.syncSoon.Set()
}

// learn applies the state of a cell, which may be older than the known one. It is called with mu held.
func (n *Node) learn(c Cell) {
	was := n.cells[c.Key]
	if c.Version <= was.Version || !strings.HasPrefix(c.Key, live) {
		return
	}
	n.cells[c.Key] = c
	if c.Exists() {
		n.newest = max(n.newest, c.Version)
	} else {
		n.graves = append(n.graves, grave{key: c.Key, version: c.Version, since: time.Now()})
	}
	kind, rest, _ := strings.Cut(c.Key[len(live):], "/")
	switch live + kind + "/" {
	case memberKey:
		n.learnMember(rest, was, c)
	case roleKey:
		n.learnRole(unescape(rest), c)
	case holderKey:
		n.learnHolder(rest, c)
	case permitKey:
		n.learnPermits(was, c)
	case settingKey:
		n.wakeWatches()
	}
}

// bury forgets removed cells once no older state of them can arrive: a state under way arrives within a lease, or
// the watch begins again. It is called with mu held.
func (n *Node) bury() {
	for len(n.graves) > 0 && time.Since(n.graves[0].since) > 2*n.lease {
		g := n.graves[0]
		n.graves = n.graves[1:]
		if c := n.cells[g.key]; c.Version == g.version {
			delete(n.cells, g.key)
		}
	}
}
