package alert

import (
	"slices"
	"time"
)

// How long a notification that a target has not accepted waits: first for the shortest time, and then for
// twice as long each time.
const (
	shortestRetry = 5 * time.Second
	longestRetry  = 5 * time.Minute
)

// queued is a notification that its target has not accepted yet.
type queued struct {
	Notification
	failures int
	next     time.Time // when it is to be sent; not stored
	sending  bool
	outdated map[Key]bool // its alerts that a newer notification took over while it was being sent
}

// Next returns the notifications to send now, at most one for each target, and none for a target that is
// still receiving one. The caller answers each with Sent or Failed.
func (m *Machine) Next(at time.Time) (ns []Notification) {
	for _, q := range m.queue {
		if !q.next.After(at) && !m.isSending(q.Target) {
			q.sending = true
			n := q.Notification
			n.Alerts = slices.Clone(n.Alerts)
			ns = append(ns, n)
		}
	}
	return ns
}

func (m *Machine) isSending(target string) bool {
	return slices.ContainsFunc(m.queue, func(q *queued) bool { return q.sending && q.Target == target })
}

// Sent says that the target has accepted a notification.
func (m *Machine) Sent(id string) {
	if i := m.find(id); i >= 0 {
		m.drop(i)
	}
}

// Failed says that the target did not accept a notification, or that this is not known. It reports
// whether the notification is given up.
func (m *Machine) Failed(at time.Time, id string) (gaveUp bool) {
	i := m.find(id)
	if i < 0 {
		return false
	}
	q := m.queue[i]
	q.sending = false
	q.failures++
	wait := longestRetry
	if q.failures <= 6 {
		wait = shortestRetry << (q.failures - 1)
	}
	q.next = at.Add(wait)
	outdated := q.outdated
	q.outdated = nil
	if q.without(outdated); len(q.Alerts) == 0 {
		m.drop(i)
		return false
	}
	if most := m.targets[q.Target].GiveUp; most > 0 && at.Sub(q.At) >= most {
		m.drop(i)
		return true
	}
	return false
}

func (m *Machine) find(id string) int {
	return slices.IndexFunc(m.queue, func(q *queued) bool { return q.ID == id })
}

func (m *Machine) drop(i int) {
	m.queue = slices.Delete(m.queue, i, i+1)
	m.changed = true
}

// Queued returns how many notifications no target has accepted yet.
func (m *Machine) Queued() int { return len(m.queue) }

// supersede takes alerts out of the notifications for a target that it has not accepted yet.
func (m *Machine) supersede(target string, keys map[Key]bool) {
	m.queue = slices.DeleteFunc(m.queue, func(q *queued) bool {
		switch {
		case q.Target != target:
			return false
		case q.sending:
			if q.outdated == nil {
				q.outdated = make(map[Key]bool)
			}
			for k := range keys {
				q.outdated[k] = true
			}
			return false
		}
		q.without(keys)
		return len(q.Alerts) == 0
	})
}

// without removes alerts.
func (q *queued) without(keys map[Key]bool) {
	before := len(q.Alerts)
	q.Alerts = slices.DeleteFunc(slices.Clone(q.Alerts), func(i Item) bool { return keys[q.keyOf(i)] })
	if len(q.Alerts) == before || len(q.Alerts) == 0 {
		return
	}
	q.Summary = summaryOf(q.Alerts)
	q.Status = Resolved
	if slices.ContainsFunc(q.Alerts, func(i Item) bool { return i.Status == Firing }) {
		q.Status = Firing
	}
}

// keyOf returns the key of an alert of the notification.
func (q *queued) keyOf(i Item) Key {
	return Key{Rule: q.Rule, Subject: i.Labels[q.When.Label()], Node: i.Labels["node"]}
}
