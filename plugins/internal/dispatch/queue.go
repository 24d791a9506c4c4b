package dispatch

import "github.com/taskengine/taskengine/plugins/internal/calls"

// Queue is a list of the calls that no session has taken, oldest first. The host's mutex guards it. The zero value is
// empty.
type Queue[O any] struct {
	first, last *Call[O]
	n           int
}

// Len returns the number of calls.
func (q *Queue[O]) Len() int { return q.n }

// Refuse answers the calls that refused returns an error for, with that error.
func (q *Queue[O]) Refuse(refused func(*Call[O]) error) {
	for c := q.first; c != nil; {
		next := c.next
		if err := refused(c); err != nil {
			q.remove(c)
			c.Done <- calls.Answer{Err: calls.Unavailable(err)}
		}
		c = next
	}
}

// push adds c as the newest call.
func (q *Queue[O]) push(c *Call[O]) {
	c.queue, c.prev = q, q.last
	if q.last == nil {
		q.first = c
	} else {
		q.last.next = c
	}
	q.last = c
	q.n++
}

// remove removes c, which is in q.
func (q *Queue[O]) remove(c *Call[O]) {
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
