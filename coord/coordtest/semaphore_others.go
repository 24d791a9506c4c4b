package coordtest

import (
	"github.com/taskengine/taskengine/coord"
)

// expect fails unless got has these numbers of permits.
func expect(e *semaphores, who string, got coord.Holding, held, share, waiting, needed int) {
	e.Helper()
	if got.Held != held || got.Share != share || got.Waiting != waiting || got.Needed != needed {
		e.check()
		e.Errorf("%s got %+v, want %d held, a share of %d, %d waiting, and %d needed", who, got, held, share, waiting, needed)
	}
}

func permitsNeeded(e *semaphores) {
	a, b, c := hold(e, e.connect()), hold(e, e.connect()), hold(e, e.connect())
	expect(e, "a holder alone", a.wants("limit", 6, 6), 6, 6, 0, 0)
	expect(e, "one that waits", b.wants("limit", 4, 6), 0, 3, 0, 0)
	got := a.await("limit", "the news that another waits", func(t coord.Holding) bool { return t.Waiting > 0 })
	expect(e, "a holder", got, 6, 3, 4, 3)
	expect(e, "one that waits beside another", c.wants("limit", 1, 6), 0, 2, 4, 2)
	expect(e, "a holder that gives back", a.wants("limit", 4, 6), 4, 2, 3, 1)
	got = b.gets("limit", 2)
	expect(e, "one that has its share", got, 2, 2, 1, 1)
	expect(e, "a holder that gives back", a.wants("limit", 3, 6), 3, 2, 2, 1) // it was granted to the first
	b.gets("limit", 3)
	expect(e, "a holder that gives back", a.wants("limit", 2, 6), 2, 2, 1, 1)
	b.gets("limit", 4)
	expect(e, "a holder that gives back", a.wants("limit", 1, 6), 1, 2, 0, 0)
	c.gets("limit", 1)
	if got := a.wants("limit", 0, 6); got.Share != 0 || got.Waiting != 0 || got.Needed != 0 {
		e.Errorf("a holder that neither has nor wants permits got %+v", got)
	}
}

func permitsNeededLeast(e *semaphores) {
	a, b := hold(e, e.connect()), hold(e, e.connect())
	a.wants("limit", 6, 6)
	b.asks(coord.Order{Name: "limit", Want: 6, Least: 5, Max: 6})
	got := a.await("limit", "the news that another waits", func(t coord.Holding) bool { return t.Waiting > 0 })
	expect(e, "a holder", got, 6, 3, 6, 5)
	expect(e, "a holder that gives back too few", a.wants("limit", 2, 6), 2, 3, 6, 5)
	expect(e, "a holder that gives back enough", a.wants("limit", 1, 6), 1, 3, 1, 0)
	b.gets("limit", 5)

	// There are more holders than permits: each of them needs one.
	many := []*holder{hold(e, a.node), hold(e, a.node), hold(e, a.node)}
	for _, h := range many {
		h.wants("few", 1, 1)
	}
	expect(e, "a holder", many[0].wants("few", 1, 1), 1, 0, 2, 2)
}

func permitsNeededLater(e *semaphores) {
	a, b, c := hold(e, e.connect()), hold(e, e.connect()), hold(e, e.connect())
	a.wants("limit", 1, 2)
	b.wants("limit", 1, 2)
	expect(e, "a holder that wants more", a.wants("limit", 2, 2), 1, 1, 0, 0)
	expect(e, "another that wants more", b.wants("limit", 2, 2), 1, 1, 1, 0)
	expect(e, "one that waits", c.wants("limit", 1, 2), 0, 0, 2, 0)
	for _, h := range []*holder{a, b} {
		got := h.await("limit", "the news that its share is needed", func(t coord.Holding) bool { return t.Needed > 0 })
		expect(e, "a holder", got, 1, 0, 2, 1)
	}
}

// permitsQuiet counts the calls: no event shows that a report was left out.
func permitsQuiet(e *semaphores) {
	a, b, c := hold(e, e.connect()), hold(e, e.connect()), hold(e, e.connect())
	a.wants("limit", 2, 3)
	b.wants("limit", 1, 3)
	b.wants("limit", 0, 3)
	b.wants("limit", 1, 3)
	c.wants("another", 1, 1)
	e.settle()
	if got, calls := a.knows("limit"); calls != 1 {
		e.check()
		e.Errorf("a holder got %d times the news that nothing has changed for it, last %+v", calls-1, got)
	}
	c.wants("limit", 1, 3)
	a.await("limit", "the news that another waits", func(t coord.Holding) bool { return t.Waiting > 0 })
	_, calls := a.knows("limit")
	for want := 2; want < 6; want++ {
		c.wants("limit", want, 3)
	}
	e.settle()
	if got, again := a.knows("limit"); again != calls {
		e.check()
		e.Errorf("a holder that knows that others wait got that news again %d times, last %+v", again-calls, got)
	}
}

func permitsRaised(e *semaphores) {
	a, b := hold(e, e.connect()), hold(e, e.connect())
	a.asks(coord.Order{Name: "limit", Want: 2, Max: 2, Version: 1})
	b.asks(coord.Order{Name: "limit", Want: 3, Max: 2, Version: 1})
	b.has("limit", 0)
	a.asks(coord.Order{Name: "limit", Want: 2, Max: 4, Version: 2})
	b.gets("limit", 2)
	a.has("limit", 2)
	b.asks(coord.Order{Name: "limit", Want: 3, Max: 9, Version: 3})
	b.gets("limit", 3)
}

func permitsLowered(e *semaphores) {
	a, b, c := hold(e, e.connect()), hold(e, e.connect()), hold(e, e.connect())
	order := func(h *holder, want, most int, version uint64) coord.Holding {
		return h.asks(coord.Order{Name: "limit", Want: want, Max: most, Version: version})
	}
	order(a, 4, 6, 1)
	order(b, 2, 6, 1)
	expect(e, "who lowers Max", order(b, 2, 3, 2), 2, 1, 0, 3)
	got := a.await("limit", "the news that too many are held", func(t coord.Holding) bool { return t.Needed > 0 })
	expect(e, "a holder", got, 4, 1, 0, 3)
	order(c, 1, 3, 2)
	order(a, 1, 3, 2)
	c.has("limit", 0)
	a.has("limit", 1)
	b.has("limit", 2)
	expect(e, "who gives back", order(b, 1, 3, 2), 1, 1, 0, 0)
	c.gets("limit", 1)
}

func permitsVersions(e *semaphores) {
	a, b := hold(e, e.connect()), hold(e, e.connect())
	order := func(h *holder, want, most int, version uint64) coord.Holding {
		return h.asks(coord.Order{Name: "limit", Want: want, Max: most, Version: version})
	}
	order(a, 1, 2, 5)
	if got := order(b, 9, 9, 4); got.Held != 1 {
		e.Errorf("with a Max of 2, and an older one of 9, another got %+v", got)
	}
	if got := order(a, 1, 9, 4); got.Held != 1 {
		e.Errorf("the answer is %+v", got)
	}
	b.has("limit", 1)
	order(a, 1, 4, 5) // of equal versions the latest
	b.gets("limit", 3)
	const top = ^uint64(0) >> 1
	order(a, 1, 5, top)
	b.gets("limit", 4)
}

func permitsTooMany(e *semaphores) {
	a, b, c := hold(e, e.connect()), hold(e, e.connect()), hold(e, e.connect())
	a.asks(coord.Order{Name: "limit", Want: 9, Least: 5, Max: 4})
	a.has("limit", 0)
	expect(e, "who passes an order for more than Max", b.wants("limit", 4, 4), 4, 4, 0, 0)
	b.has("limit", 4)
	c.asks(coord.Order{Name: "limit", Want: 1, Max: 6, Version: 1})
	c.has("limit", 0) // now the first one is before it
	b.asks(coord.Order{Name: "limit", Want: 1, Max: 6, Version: 1})
	a.gets("limit", 5)
	c.has("limit", 0)
	b.ends()
	a.gets("limit", 6)
	a.asks(coord.Order{Name: "limit", Want: 5, Max: 6, Version: 1})
	c.gets("limit", 1)
}

func permitsClosed(e *semaphores) {
	a, b := hold(e, e.connect()), hold(e, e.connect())
	a.wants("limit", 1, 0)
	a.has("limit", 0)
	b.asks(coord.Order{Name: "limit", Want: 2, Max: 2, Version: 1})
	a.gets("limit", 1)
	b.gets("limit", 1)
	expect(e, "who closes a limit", b.asks(coord.Order{Name: "limit", Want: 1, Max: 0, Version: 2}), 1, 0, 0, 2)
	a.wants("limit", 0, 1) // with an older Max
	if got := a.wants("limit", 1, 1); got.Held != 0 {
		e.Errorf("of a closed limit a holder got %+v", got)
	}
}
