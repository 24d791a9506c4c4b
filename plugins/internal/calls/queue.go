package calls

// Queue is a list of the calls that no session has taken yet, oldest first. The host's mutex guards it. The zero value is
// empty.
type Queue[S any] struct {
	first, last *Call[S]
	n           int
}

// First returns the oldest call, nil if there is none.
func (q *Queue[S]) First() *Call[S] { return q.first }

// Len returns the number of calls.
func (q *Queue[S]) Len() int { return q.n }

// Push adds c as the newest call.
func (q *Queue[S]) Push(c *Call[S]) {
	c.queue, c.prev = q, q.last
	if q.last == nil {
		q.first = c
	} else {
		q.last.next = c
	}
	q.last = c
	q.n++
}

// Refuse answers the calls that refused returns an error for, with that error.
func (q *Queue[S]) Refuse(refused func(*Call[S]) error) {
	for c := q.first; c != nil; {
		next := c.next
		if err := refused(c); err != nil {
			c.Leave()
			c.Done <- Answer{Err: err}
		}
		c = next
	}
}

// Waits reports whether c is in a queue.
func (c *Call[S]) Waits() bool { return c.queue != nil }

// Leave removes c from its queue.
func (c *Call[S]) Leave() {
	q := c.queue
	if c.prev == nil {
		q.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		q.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.queue, c.next, c.prev = nil, nil, nil
	q.n--
}
