package table

import "slices"

// Use is the use of some limits, and the tasks that wait below them.
type Use struct {
	Used   int            // slots taken
	Held   int            // permits of limits of the cluster
	OpenAt int64          // when a rate allows the next start, in Unix nanoseconds: of several limits the latest; 0 if all allow one now
	Queued map[string]int // by type, the number of triggers in memory that count for one of the limits
	Names  []string       // of the limits of the cluster among them, for the coordinator, sorted
}

// Limits calls fn with every limit in use that has a name: its name, its value, the number of slots
// taken and the number of permits. A limit below a keyed one may be in use for several values of that.
func (t *Table) Limits(fn func(name, value string, used, held int)) {
	for _, n := range t.nodes {
		held := 0
		if n.permits != nil {
			held = n.permits.held
		}
		fn(n.name, n.value, n.used, held)
	}
}

// Full is a limit, or one of its values, that has no slot left for tasks of this node.
type Full struct {
	Name    string
	Value   string // of the limit, or, if it has none, of the nearest limit above it that has one
	Used    int    // slots that tasks of this node take
	Max     int    // on all nodes, if the limit is of the cluster
	Cluster bool
}

// EachFull calls fn with every limit in use that is full: of a limit of the cluster, if this node lacks a permit that it has
// ordered, or has all of them. It looks at all limits in use.
func (t *Table) EachFull(fn func(Full)) {
	for _, n := range t.nodes {
		if n.name == "" || n.isPool || n.max == 0 {
			continue
		}
		lacks := n.permits != nil && n.permits.ordered.Want > n.permits.held
		if n.used < n.max && !lacks {
			continue
		}
		f := Full{Name: n.name, Used: n.used, Max: n.max, Cluster: n.permits != nil}
		for at := n; at != nil && f.Value == ""; at = at.parent {
			f.Value = at.value
		}
		fn(f)
	}
}

// Use returns the use of the limits that match. It looks at all limits in use and at all queues.
func (t *Table) Use(now int64, match func(name, value string) bool) Use {
	u := Use{Queued: make(map[string]int)}
	for _, n := range t.nodes {
		if !match(n.name, n.value) {
			continue
		}
		u.Used += n.used
		if at, ok := n.opensAt(now); !ok {
			u.OpenAt = max(u.OpenAt, at, now)
		}
		if p := n.permits; p != nil {
			u.Held += p.held
			u.Names = append(u.Names, p.name)
			if p.interval > 0 && p.left == 0 && p.drawAt > now {
				u.OpenAt = max(u.OpenAt, p.drawAt)
			}
		}
	}
	slices.Sort(u.Names)
	for _, q := range t.queues {
		if count := q.len(); count > 0 && q.counts(match) {
			u.Queued[q.kind.name] += count
		}
	}
	return u
}

// CountsFor reports whether a booked slot counts for a limit that matches.
func (s Slot) CountsFor(match func(name, value string) bool) bool { return s.queue.counts(match) }

// counts reports whether the tasks of q count for a limit that matches.
func (q *queue) counts(match func(name, value string) bool) bool {
	for n := q.node.parent; n != nil; n = n.parent {
		if match(n.name, n.value) {
			return true
		}
	}
	for _, n := range q.across {
		if match(n.name, n.value) {
			return true
		}
	}
	return false
}

// Total is the use of a limit, with all its values, by the tasks of this node.
type Total struct {
	Used   int // slots taken
	Held   int // permits of a limit of the cluster
	Wanted int // permits that the node has ordered, including Held
}

// Total returns the use of a limit, or for "" of the slots of the node. Permits are as of the last
// [Table.TakeOrders].
func (t *Table) Total(limit string) Total {
	if limit == "" {
		return Total{Used: t.root.used}
	}
	if total := t.totals[limit]; total != nil {
		return *total
	}
	return Total{}
}

func (t *Table) totalOf(limit string) *Total {
	total := t.totals[limit]
	if total == nil {
		total = new(Total)
		t.totals[limit] = total
	}
	return total
}

// use counts slots of n that were taken or, if it is negative, freed.
func (n *node) use(slots int) {
	n.used += slots
	if n.total != nil {
		n.total.Used += slots
	}
}

// count updates the part of some permits in the total.
func (t *Total) count(p *permits) {
	t.Held += p.held - p.counted.Held
	t.Wanted += p.ordered.Want - p.counted.Wanted
	p.counted.Held, p.counted.Wanted = p.held, p.ordered.Want
}
