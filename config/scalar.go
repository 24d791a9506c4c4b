package config

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/internal/suggest"
	"github.com/taskengine/taskengine/internal/units"
	"github.com/taskengine/taskengine/policy"
)

// value is a scalar that is read by parse. Errors of parse complete a sentence about
// the value: "30 needs a unit, such as 30s".
type value[T any] struct {
	want  string // the description in messages: "a duration, such as 30s"
	parse func(text) (T, error)
	json  document
	// broken replaces a value that cannot be read, so that later checks do not report it
	// again; nil keeps the default.
	broken *T
}

func (v value[T]) decode(d *decoder, n *node, into any) {
	target := into.(*T)
	if !d.is(n, scalar, v.want) {
		v.spoil(target)
		return
	}
	t, err := d.resolve(n)
	if err == nil {
		var read T
		if read, err = v.parse(t); err == nil {
			*target = read
			return
		}
		if t.ref != "" { // the error may quote it
			err = fmt.Errorf("the value of %s is not %s; correct it there", t.ref, v.want)
		}
	}
	d.fault(n.at, "%v", err)
	v.spoil(target)
}

func (v value[T]) spoil(target *T) {
	if v.broken != nil {
		*target = *v.broken
	}
}

func (v value[T]) words() string    { return v.want }
func (v value[T]) schema() document { return v.json }

// literal returns a value that should be text. It returns an error if YAML, or some readers of YAML,
// give the value another type.
func literal(t text) (string, error) {
	n := t.node
	if t.ref != "" || n.quoted {
		return t.value, nil
	}
	advice := fmt.Sprintf("; write %.40q, in quotes", t.value)
	switch n.tag {
	case "!!str":
		switch strings.ToLower(t.value) {
		case "yes", "no", "on", "off", "y", "n":
			return "", errors.New("must be text, but many readers of YAML take " + t.value + " for true or false" + advice)
		}
		return t.value, nil
	case "!!bool":
		return "", errors.New("must be text, but YAML takes " + t.value + " for true or false" + advice)
	case "!!timestamp":
		return "", errors.New("must be text, but YAML takes it for a date" + advice)
	}
	return "", errors.New("must be text, but YAML takes it for a number" + advice)
}

// words is text that check accepts.
func words(want string, check func(string) error) value[string] {
	return value[string]{want: want, json: orReference(document{"type": "string"}), parse: func(t text) (string, error) {
		s, err := literal(t)
		if err == nil && check != nil {
			err = check(s)
		}
		return s, err
	}}
}

// secret is text that keeps the reference that it came from, if any.
func secret(want string, check func(string) error) value[Text] {
	plain := words(want, check)
	return value[Text]{want: want, json: plain.json, parse: func(t text) (Text, error) {
		s, err := plain.parse(t)
		return Text{value: s, shown: t.ref, file: t.file}, err
	}}
}

// verbatim is an argument of a command, where ${...} is left to the shell.
type verbatim struct{}

func (verbatim) decode(d *decoder, n *node, into any) {
	if !d.is(n, scalar, "string") {
		return
	}
	s, err := literal(text{value: n.text, node: n})
	if err == nil && strings.Contains(s, "\x00") {
		err = errors.New("has a NUL character, which no command can take; remove it")
	}
	if err != nil {
		d.fault(n.at, "%v", err)
		return
	}
	*into.(*string) = s
}

func (verbatim) words() string    { return "string" }
func (verbatim) schema() document { return document{"type": "string"} }

func boolean() value[bool] {
	return value[bool]{want: "true or false", json: orReference(document{"type": "boolean"}), parse: func(t text) (bool, error) {
		switch {
		case t.ref == "" && t.node.quoted:
			return false, fmt.Errorf("%s is text; write true or false, without quotes", t.shown())
		case t.value == "true":
			return true, nil
		case t.value == "false":
			return false, nil
		}
		return false, fmt.Errorf("%s is neither true nor false; write one of them", t.shown())
	}}
}

var wholeNumber = regexp.MustCompile(`^[+-]?(0|[1-9][0-9]*)$`)

// whole is a whole number of least to most. If 0 is allowed, it means "no limit" and replaces a
// value that cannot be read.
func whole[T ~int | ~uint8 | ~uint32](least, most int64, want string) value[T] {
	v := value[T]{want: want, json: orReference(document{"type": "integer", "minimum": least, "maximum": most})}
	if least == 0 {
		v.broken = new(T)
	}
	v.parse = func(t text) (T, error) {
		switch {
		case t.ref == "" && t.node.quoted:
			return 0, fmt.Errorf("%s is text; write a number without quotes", t.shown())
		case !wholeNumber.MatchString(t.value):
			return 0, fmt.Errorf("%s is not a whole number; write decimal digits only, without a leading 0", t.shown())
		}
		n, err := strconv.ParseInt(t.value, 10, 64)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("must be %d to %d", least, most)
		}
		return T(n), nil
	}
	return v
}

func fraction(least, most float64, want string) value[float64] {
	return value[float64]{want: want, json: orReference(document{"type": "number", "minimum": least, "maximum": most}), parse: func(t text) (float64, error) {
		if t.ref == "" && t.node.quoted {
			return 0, fmt.Errorf("%s is text; write a number without quotes", t.shown())
		}
		f, err := strconv.ParseFloat(t.value, 64)
		switch {
		case err != nil || strings.ContainsAny(t.value, "xXpP_iInN"):
			return 0, fmt.Errorf("%s is not a number; write it such as 0.2", t.shown())
		case f < least || f > most:
			return 0, fmt.Errorf("must be %v to %v", least, most)
		}
		return f, nil
	}}
}

// period is a duration. If positive is true, 0 is refused.
func period(want string, positive bool) value[time.Duration] {
	v := value[time.Duration]{want: want, json: document{"$ref": "#/$defs/duration"}, parse: func(t text) (time.Duration, error) {
		return parsePeriod(t, positive)
	}}
	if positive {
		second := time.Second
		v.broken = &second
	}
	return v
}

func parsePeriod(t text, positive bool) (time.Duration, error) {
	d, err := units.ParseDuration(t.value)
	if err == nil && positive && d == 0 {
		err = errors.New("must be more than 0")
	}
	return d, err
}

// minLease is the shortest lease of nodes that share a database.
const minLease = 100 * time.Millisecond

func lease() value[time.Duration] {
	v := period(aDuration, true)
	v.parse = func(t text) (time.Duration, error) {
		d, err := units.ParseDuration(t.value)
		if err == nil && d < minLease {
			err = fmt.Errorf("must be %v or more: a node proves every third of it that it is alive", minLease)
		}
		return d, err
	}
	return v
}

// keeping is a time to keep something, or forever.
func keeping() value[time.Duration] {
	return value[time.Duration]{
		want: "a duration, such as 7d, or forever", json: document{"$ref": "#/$defs/keeping"},
		parse: func(t text) (time.Duration, error) {
			if t.value == "forever" {
				return policy.Forever, nil
			}
			d, err := parsePeriod(t, false)
			if err != nil && suggest.Nearest(t.value, []string{"forever"}) != "" {
				err = fmt.Errorf("%s is neither a duration nor forever; did you mean forever?", t.shown())
			}
			return d, err
		},
	}
}

// tries is a number of attempts, or forever.
func tries() value[int] {
	n := whole[int](1, maxCount, "a number, or forever")
	return value[int]{want: n.want, json: document{"anyOf": []document{{"const": "forever"}, n.json}}, parse: func(t text) (int, error) {
		if t.value == "forever" {
			return policy.Forever, nil
		}
		most, err := n.parse(t)
		if err != nil && suggest.Nearest(t.value, []string{"forever"}) != "" {
			err = fmt.Errorf("%s is neither a number nor forever; did you mean forever?", t.shown())
		}
		return most, err
	}}
}

// LivenessOff is the liveness of a plugin that may send nothing for any time.
const LivenessOff time.Duration = -1

// liveness is how long a plugin may send nothing.
func liveness() value[time.Duration] {
	return value[time.Duration]{
		want: "a duration, such as 5m, or off", json: document{"$ref": "#/$defs/liveness"},
		parse: func(t text) (time.Duration, error) {
			if t.value == "off" {
				return LivenessOff, nil
			}
			d, err := parsePeriod(t, true)
			if err != nil && suggest.Nearest(t.value, []string{"off"}) != "" {
				err = fmt.Errorf("%s is neither a duration nor off; did you mean off?", t.shown())
			}
			return d, err
		},
	}
}

func size(least, most int, want string) value[int] {
	return value[int]{want: want, json: document{"$ref": "#/$defs/size"}, parse: func(t text) (int, error) {
		n, err := units.ParseSize(t.value)
		if err == nil && (n < least || n > most) {
			err = fmt.Errorf("must be %s to %s", units.ShowSize(least), units.ShowSize(most))
		}
		return n, err
	}}
}

// orNothing refuses sizes below least other than 0.
func orNothing(least int, v value[int]) value[int] {
	parse := v.parse
	v.parse = func(t text) (int, error) {
		n, err := parse(t)
		if err == nil && n > 0 && n < least {
			err = fmt.Errorf("must be 0B, or at least %s", units.ShowSize(least))
		}
		return n, err
	}
	return v
}

// option is one word and its value.
type option[T any] struct {
	word string
	is   T
}

// oneOf is one of a few words. later has the words of other builds, with the remedy.
func oneOf[T any](later map[string]string, options ...option[T]) value[T] {
	names := make([]string, len(options))
	for i, o := range options {
		names[i] = o.word
	}
	return value[T]{want: suggest.Either(names), json: orReference(document{"enum": names}), parse: func(t text) (none T, err error) {
		for _, o := range options {
			if o.word == t.value {
				return o.is, nil
			}
		}
		if advice, ok := later[t.value]; ok {
			return none, fmt.Errorf("%s is %s; use %s", t.value, advice, suggest.Either(names))
		}
		return none, fmt.Errorf("%s is not known; %s", name(t.value), suggest.Advice(t.value, names))
	}}
}
