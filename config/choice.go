package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/internal/suggest"
	"github.com/taskengine/taskengine/internal/units"
	"github.com/taskengine/taskengine/policy"
)

// short is an object with a short form: a single value.
type short struct {
	value  shape
	object *object
}

func (s short) decode(d *decoder, n *node, into any) {
	if n.kind == scalar {
		s.value.decode(d, n, into)
		return
	}
	if d.is(n, mapping, s.words()) {
		s.object.decode(d, n, into)
	}
}

func (s short) words() string { return s.value.words() + ", or a mapping" }

// variant is one kind of handler: the key that selects it, and its other keys.
type variant struct {
	key   string
	is    *object
	begin func(*Handler) any // makes a handler of this kind and returns a pointer to decode into
}

// variants is a handler of one of several kinds.
type variants []variant

func (vs variants) keys() []string {
	keys := make([]string, len(vs))
	for i, v := range vs {
		keys[i] = v.key
	}
	return keys
}

func (vs variants) words() string { return "a mapping with " + suggest.Either(vs.keys()) }

func (vs variants) decode(d *decoder, n *node, into any) {
	if !d.is(n, mapping, vs.words()) {
		return
	}
	var chosen *variant
	for i := range vs {
		e := n.find(vs[i].key)
		switch {
		case e == nil:
		case chosen == nil:
			chosen = &vs[i]
		default:
			d.fault(e.at, "%s cannot go with %s; make two handlers of them", e.key, chosen.key)
			return
		}
	}
	if chosen != nil {
		chosen.is.decode(d, n, chosen.begin(into.(*Handler)))
		return
	}
	for _, e := range n.entries {
		if near := suggest.Nearest(e.key, vs.keys()); near != "" {
			d.fault(e.at, "%s is no key of a handler; did you mean %s?", name(e.key), near)
			return
		}
	}
	d.fault(n.at, "names no handler that runs the tasks; write %s", vs.words())
}

// rateText is a rate such as 20/1s, or 20/s.
func rateText() value[policy.Rate] {
	return value[policy.Rate]{
		want: "a rate, such as 20/1s", json: document{"$ref": "#/$defs/rate"},
		parse: func(t text) (policy.Rate, error) {
			return ParseRate(t.value)
		},
	}
}

// ParseRate reads starts per time, such as 20/1s or 20/s. Its errors contain the remedy.
func ParseRate(s string) (policy.Rate, error) {
	count, per, ok := strings.Cut(s, "/")
	if !ok {
		return policy.Rate{}, fmt.Errorf("%.40q is not a rate; write starts per time, such as 20/1s", s)
	}
	n, err := strconv.ParseInt(count, 10, 32)
	if err != nil || n < 1 {
		return policy.Rate{}, fmt.Errorf("%.40q does not begin with a number of 1 or more; write starts per time, such as 20/1s", s)
	}
	if per != "" && strings.IndexFunc(per, func(r rune) bool { return r >= '0' && r <= '9' }) < 0 {
		per = "1" + per
	}
	d, err := units.ParseDuration(per)
	switch {
	case err != nil:
		return policy.Rate{}, err
	case d == 0:
		return policy.Rate{}, errors.New("needs a time of more than 0, such as 20/1s")
	}
	return policy.Rate{Count: int(n), Per: d}, nil
}

// backlogMax is the maximum of a backlog; a full backlog refuses new tasks.
func backlogMax() value[policy.Backlog] {
	n := whole[int](0, maxCount, "a number")
	return value[policy.Backlog]{want: n.want, json: n.json, parse: func(t text) (policy.Backlog, error) {
		most, err := n.parse(t)
		return policy.Backlog{Max: most}, err
	}}
}

// word is a value that must be the word w, which stands for is. It has an alternative.
func word[T any](w string, is T, alternative string) value[T] {
	return value[T]{want: w, json: document{"const": w}, parse: func(t text) (none T, err error) {
		if t.value == w {
			return is, nil
		}
		return none, fmt.Errorf("%s is not known; write %s, or a mapping such as %s", t.shown(), w, alternative)
	}}
}

// backoffOf returns a backoff of a kind with the default values.
func backoffOf(kind policy.BackoffKind) func(any) any {
	return in(func(b *policy.Backoff) *policy.Backoff {
		begun := policy.Backoff{Kind: kind, Max: time.Hour, Jitter: b.Jitter}
		switch kind {
		case policy.Exponential:
			begun = policy.DefaultType().Retry.Backoff
			begun.Jitter = b.Jitter
		case policy.Fixed:
			begun.Max = 0
		}
		*b = begun
		return b
	})
}
