package alert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"
)

// maxListed is how many alerts a notification lists.
const maxListed = 50

// Notification has the alerts of one rule for one target. Targets send its JSON as the body, so it is an
// interface with other programs.
type Notification struct {
	Version int       `json:"version"` // of this format: 1
	ID      string    `json:"id"`      // the same whenever the notification is sent
	At      time.Time `json:"at"`      // when it was made
	Target  string    `json:"target"`
	Node    string    `json:"node"` // that made it
	Rule    string    `json:"rule"`
	When    Kind      `json:"when"`
	Status  Status    `json:"status"` // Firing, or Resolved if all alerts in it are
	Repeat  bool      `json:"repeat"` // nothing in it is new
	Test    bool      `json:"test"`   // it was made by a person, to test the target
	Summary string    `json:"summary"`
	Alerts  []Item    `json:"alerts"` // all firing and newly resolved alerts, the new ones first; at most 50
	More    int       `json:"more"`   // how many alerts are not listed
}

// Item is an alert in a notification.
type Item struct {
	Status     Status            `json:"status"` // Firing or Resolved
	Labels     map[string]string `json:"labels"`
	Since      time.Time         `json:"since"`
	ResolvedAt time.Time         `json:"resolved_at,omitzero"`
	Value      float64           `json:"value"`
	AtLeast    bool              `json:"at_least"` // the value may be larger
	Summary    string            `json:"summary"`
	Detail     string            `json:"detail,omitempty"`
}

// Tick makes the notifications that are due at a time.
func (m *Machine) Tick(at time.Time) {
	for _, name := range slices.Sorted(maps.Keys(m.rules)) {
		r := m.rules[name]
		for _, target := range r.Targets {
			t, ok := m.targets[target]
			if !ok {
				continue
			}
			due, repeat := m.due(r, target, at)
			if due.IsZero() || due.After(at) {
				continue
			}
			next, free, _ := t.Rate.take(m.state.Rates[target], at)
			if !free {
				continue
			}
			if t.Rate.Count > 0 {
				m.state.Rates[target] = next
			}
			m.notify(r, target, at, repeat)
		}
	}
}

// Wake returns when Tick or Next have something to do, if nothing else happens: zero if never.
func (m *Machine) Wake(at time.Time) (wake time.Time) {
	sooner := func(t time.Time) {
		if !t.IsZero() && (wake.IsZero() || t.Before(wake)) {
			wake = t
		}
	}
	for _, r := range m.rules {
		for _, target := range r.Targets {
			t, ok := m.targets[target]
			if due, _ := m.due(r, target, at); ok && !due.IsZero() {
				_, _, free := t.Rate.take(m.state.Rates[target], at)
				sooner(later(due, free))
			}
		}
	}
	for _, q := range m.queue {
		if !m.isSending(q.Target) {
			sooner(q.next)
		}
	}
	return wake
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// due returns when the next notification of a rule to a target is due; zero if none is. repeat is true
// if it has nothing new.
func (m *Machine) due(r *Rule, target string, at time.Time) (due time.Time, repeat bool) {
	var news, again time.Time
	for _, a := range m.alerts {
		if a.Rule != r.Name {
			continue
		}
		need, isRepeat := m.need(r, a, target, at)
		first := &news
		if isRepeat {
			first = &again
		}
		if !need.IsZero() && (first.IsZero() || need.Before(*first)) {
			*first = need
		}
	}
	if !news.IsZero() {
		news = news.Add(r.GroupWait)
		if last, ok := m.state.Last[r.Name+"/"+target]; ok {
			news = later(news, last.Add(r.Interval))
		}
	}
	if news.IsZero() || !again.IsZero() && again.Before(news) && news.After(at) {
		return again, true
	}
	return news, false
}

// need returns since when a notification of an alert to a target has been due, or, with repeat, when
// its next repeat is due.
func (m *Machine) need(r *Rule, a *Alert, target string, at time.Time) (since time.Time, repeat bool) {
	last, knows := a.Notified[target]
	switch {
	case a.Status == Resolved && knows:
		return a.ResolvedAt, false
	case a.Status != Firing || m.isSilenced(a, at):
		return time.Time{}, false
	case !knows:
		return a.FiredAt, false
	case a.Grown > last.Grown:
		return a.GrownAt, false
	case r.Repeat > 0:
		return last.At.Add(r.Repeat), true
	}
	return time.Time{}, false
}

// notify queues a notification of all firing and newly resolved alerts of a rule. New alerts come first.
func (m *Machine) notify(r *Rule, target string, at time.Time, repeat bool) {
	var news, resolved, others []Item
	covered := make(map[Key]bool)
	var was Kind
	for _, a := range m.sorted() {
		_, knows := a.Notified[target]
		switch {
		case a.Rule != r.Name:
		case a.Status == Firing && !m.isSilenced(a, at):
			if need, repeats := m.need(r, a, target, at); need.IsZero() || repeats {
				others = append(others, itemOf(a))
			} else {
				news = append(news, itemOf(a))
			}
			if a.Notified == nil {
				a.Notified = make(map[string]Notice)
			}
			a.Notified[target], covered[a.Key] = Notice{at, a.Grown}, true
		case a.Status == Resolved && knows:
			resolved = append(resolved, itemOf(a))
			covered[a.Key], was = true, a.When
			if delete(a.Notified, target); len(a.Notified) == 0 {
				delete(m.alerts, a.Key)
			}
		}
	}
	m.supersede(target, covered)
	m.state.Seq++
	m.state.Last[r.Name+"/"+target] = at
	m.changed = true
	n := Notification{
		Version: 1, ID: m.id(r.Name, target, at), At: at, Target: target, Node: m.config.Node, Rule: r.Name, When: r.When,
		Status: Firing, Repeat: repeat, Alerts: slices.Concat(news, resolved, others),
	}
	if len(news)+len(others) == 0 {
		n.Status = Resolved
	}
	if n.When == 0 { // the rule is gone
		n.When = was
	}
	n.Summary = summaryOf(n.Alerts)
	if len(n.Alerts) > maxListed {
		n.Alerts, n.More = n.Alerts[:maxListed], len(n.Alerts)-maxListed
	}
	m.queue = append(m.queue, &queued{Notification: n, next: at})
}

func itemOf(a *Alert) Item {
	return Item{
		Status: a.Status, Labels: a.Labels(), Since: a.Since, ResolvedAt: a.ResolvedAt, Value: a.Value, AtLeast: a.More,
		Summary: a.Summary(), Detail: a.Detail,
	}
}

// summaryOf returns a line about alerts.
func summaryOf(items []Item) string {
	if len(items) == 1 {
		return items[0].Summary
	}
	return fmt.Sprintf("%s, and %d more", items[0].Summary, len(items)-1)
}

// id returns the ID of the notification that is made now.
func (m *Machine) id(rule, target string, at time.Time) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d %d", m.config.Scope, rule, target, m.state.Seq, at.UnixNano()))
	return hex.EncodeToString(sum[:16])
}
