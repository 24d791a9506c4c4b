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
	// after its start may be missing in it.
	pageAge = 10 * time.Second
)

// pages remembers the ids that were collected for a page of a list, until its next page is read: otherwise each page
// would collect and sort the ids of all pages. Its methods may be called from any goroutine.
type pages struct {
	mu  sync.Mutex
	all []nextPage // guarded by mu: the oldest first

	// Another list of the same filter may come to the same id. It must have all rows that were there at its start, so that ids that were
	// collected before are forgotten then. Guarded by mu.
	begun  [maxBegun]storage.Filter // a ring: the filter of start n is at n % maxBegun
	starts uint64                   // of lists, how many were noted

	// A row without a time has its entry in the order of ids, so that the ids of a page do not have it. When it gets another
	// entry before the list has come to it, it is among these. Guarded by mu.
	moved       []task.ID // a ring: the id of move n is at n % maxMoved
	moves       uint64    // how many were noted
	newest, old uint64    // the number of moves at the beginning of the newest transaction, and of the one before
}

// maxMoved is how many moves are remembered.
const maxMoved = 1 << 15

// maxBegun is how many starts of lists are remembered.
const maxBegun = 1 << 6

// start notes that a list is read from its first page, and forgets the ids that were collected for lists of the same filter.
func (p *pages) start(f storage.Filter) {
	f.States, f.Types = slices.Clone(f.States), slices.Clone(f.Types)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = slices.DeleteFunc(p.all, func(n nextPage) bool { return sameFilter(n.filter, f) })
	p.begun[p.starts%maxBegun] = f
	p.starts++
}

// begunLists returns the number of starts of lists. Ids that are collected afterwards are good for these.
func (p *pages) begunLists() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts
}

// hasBegun reports whether a list of a filter has begun, or may have, since the given number of starts. The caller holds mu.
func (p *pages) hasBegun(f storage.Filter, since uint64) bool {
	if p.starts-since > maxBegun {
		return true
	}
	for n := since; n < p.starts; n++ {
		if sameFilter(p.begun[n%maxBegun], f) {
			return true
		}
	}
	return false
}

func sameFilter(a, b storage.Filter) bool {
	return a.Key == b.Key && slices.Equal(a.States, b.States) && slices.Equal(a.Types, b.Types)
}

// begin notes the beginning of a transaction.
func (p *pages) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.old, p.newest = p.newest, p.moves
}

// move notes that a row has got another entry than the one in the order of ids.
func (p *pages) move(id task.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.moved == nil {
		p.moved = make([]task.ID, maxMoved)
	}
	p.moved[p.moves%maxMoved] = id
	p.moves++
}

// mark returns the number of moves that each reader sees. It is called when a reader has begun: a move that it does not see was noted by a
// transaction that was in progress, or has begun since.
func (p *pages) mark() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.old
}

// movedSince adds to ids the moved rows since a mark that are below before, the newest first. It reports false if it has forgotten some. The caller
// holds mu.
func (p *pages) movedSince(mark uint64, before task.ID, ids []task.ID) ([]task.ID, bool) {
	if p.moves-mark > maxMoved {
		return nil, false
	}
	known := len(ids)
	for n := mark; n < p.moves; n++ {
		if id := p.moved[n%maxMoved]; id.Compare(before) < 0 {
			ids = append(ids, id)
		}
	}
	if len(ids) > known {
		slices.SortFunc(ids, func(a, b task.ID) int { return b.Compare(a) })
		ids = slices.Compact(ids)
	}
	return ids, true
}

// nextPage has the remembered ids for the next page of a list.
type nextPage struct {
	filter storage.Filter
	before task.ID
	at     time.Time
	ids    []task.ID // collected, below before, the newest first
	mark   uint64    // of the reader of the page before
	since  uint64    // the starts of lists before the ids were collected
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
		if !ok && n.before == before && sameFilter(n.filter, f) {
			known = n
			known.ids, ok = p.movedSince(n.mark, before, n.ids)
			return true
		}
		return false
	})
	return known, ok
}

// keep remembers a page that may be read next, unless a list of its filter has begun since its ids were collected. It owns the ids from then on.
func (p *pages) keep(n nextPage) {
	n.filter.States, n.filter.Types = slices.Clone(n.filter.States), slices.Clone(n.filter.Types)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hasBegun(n.filter, n.since) {
		return
	}
	if len(p.all) == maxPages {
		p.all = slices.Delete(p.all, 0, 1)
	}
	p.all = append(p.all, n)
}
