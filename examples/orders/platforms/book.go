package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	rate   = 15                     // orders per second
	latest = 800 * time.Millisecond // how long after its time an order is shown, at most
)

// order is an order in its newest state.
type order struct {
	Number  string    `json:"number"`
	Changed time.Time `json:"changed"` // for the last time
	Status  string    `json:"status"`
	Cents   int       `json:"cents"`
}

// change is a new state of an order.
type change struct {
	order
	shown time.Time // from then on requests are answered with it
}

// book is what a platform has. Its orders depend on the seed and the time alone.
type book struct {
	prefix string // of the numbers
	burst  int    // how many orders now and then come at once

	mu      sync.Mutex
	random  *rand.Rand        // guarded by mu, as the rest
	next    time.Time         // when the next order comes
	end     time.Time         // when the last one came; zero if there will be more
	made    int               // orders so far
	pending []change          // that are not shown yet
	orders  map[string]*order // that are shown, by their numbers
}

func newBook(prefix string, begin time.Time, seed uint64, burst int) *book {
	return &book{prefix: prefix, burst: burst, random: rand.New(rand.NewPCG(seed, 0)), next: begin, orders: make(map[string]*order)}
}

// all returns the orders that are shown at a time, by the time of their last change.
func (b *book) all(now time.Time) []order { return b.between(now, time.Time{}, now.Add(time.Hour)) }

// between returns the orders that have changed last at from or later, and before to.
func (b *book) between(now, from, to time.Time) []order {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	found := []order{}
	for _, o := range b.orders {
		if !o.Changed.Before(from) && o.Changed.Before(to) {
			found = append(found, *o)
		}
	}
	slices.SortFunc(found, compare)
	return found
}

// compare orders orders by time.
func compare(a, b order) int {
	return cmp.Or(a.Changed.Compare(b.Changed), cmp.Compare(a.Number, b.Number))
}

// close has no order change from a time on.
func (b *book) close(end time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(end)
	b.end = end
	b.pending = slices.DeleteFunc(b.pending, func(c change) bool { return !c.Changed.Before(end) })
}

// advance makes the orders until now, and shows what is to be shown. mu is held.
func (b *book) advance(now time.Time) {
	for b.end.IsZero() && b.next.Before(now) {
		at := b.next
		b.next = at.Add(time.Duration(b.random.ExpFloat64() * float64(time.Second) / rate))
		b.come(at)
		if b.burst > 0 && b.random.IntN(2*b.burst) == 0 {
			for i := range b.burst {
				b.come(at.Add(time.Duration(i) * 4 * time.Millisecond))
			}
		}
	}
	b.pending = slices.DeleteFunc(b.pending, func(c change) bool {
		if c.shown.After(now) {
			return false
		}
		if known := b.orders[c.Number]; known == nil {
			b.orders[c.Number] = &c.order
		} else if c.Changed.After(known.Changed) { // changes may be shown in another order than they were made
			*known = c.order
		}
		return true
	})
}

// come makes an order. A fourth of the orders change some seconds later: then they are no longer in the slice of time in which they
// were. mu is held.
func (b *book) come(at time.Time) {
	b.made++
	o := order{Number: fmt.Sprintf("%s-%06d", b.prefix, b.made), Changed: at.UTC().Truncate(time.Millisecond), Status: "new", Cents: 100 + b.random.IntN(100_000)}
	b.pending = append(b.pending, change{o, b.show(o.Changed)})
	if b.random.IntN(4) == 0 {
		o.Changed = o.Changed.Add(time.Duration(1+b.random.IntN(10_000)) * time.Millisecond)
		o.Status = "paid"
		if b.random.IntN(3) == 0 {
			o.Status, o.Cents = "cancelled", 0
		}
		b.pending = append(b.pending, change{o, b.show(o.Changed)})
	}
}

// show returns when a change is shown: a third of them is late.
func (b *book) show(at time.Time) time.Time {
	if b.random.IntN(3) > 0 {
		return at
	}
	return at.Add(time.Duration(b.random.Int64N(int64(latest))))
}
