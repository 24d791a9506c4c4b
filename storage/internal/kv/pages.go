package kv

import (
	"slices"
	"sync"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

const (
	// maxPages is how many lists are remembered that have a next page. Each takes 16 bytes for each id, at most for as many
	// ids as a call of List may read.
	maxPages = 4

	// pageAge is how long the ids of a list are remembered for its next page: rows that come into a state of the list
	// in that time may be missing in it.
	pageAge = 10 * time.Second
)

// pages remembers the ids that were collected for a page of a list, until its next page is read: otherwise each page
// would collect and sort the ids of all pages. Its methods may be called from any goroutine.
type pages struct {
	mu  sync.Mutex
	all []nextPage // guarded by mu: the oldest first
}

// nextPage has the remembered ids for the next page of a list.
type nextPage struct {
	filter storage.Filter
	before task.ID
	at     time.Time
	ids    []task.ID // collected, below before, the newest first
	many   bool      // there are too many to collect
}

// take returns the remembered ids of a page, and forgets them.
func (p *pages) take(f storage.Filter, before task.ID, now time.Time) (known nextPage, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = slices.DeleteFunc(p.all, func(n nextPage) bool {
		if now.Sub(n.at) > pageAge {
			return true
		}
		if !ok && n.before == before && n.filter.Key == f.Key && slices.Equal(n.filter.States, f.States) && slices.Equal(n.filter.Types, f.Types) {
			known, ok = n, true
			return true
		}
		return false
	})
	return known, ok
}

// keep remembers a page that may be read next. It owns the ids from then on.
func (p *pages) keep(n nextPage) {
	n.filter.States, n.filter.Types = slices.Clone(n.filter.States), slices.Clone(n.filter.Types)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) == maxPages {
		p.all = slices.Delete(p.all, 0, 1)
	}
	p.all = append(p.all, n)
}
