package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/internal/suggest"
	"github.com/taskengine/taskengine/internal/units"
)

// Reader reads a YAML text that is not a configuration, such as a scenario of the benchmarks, as
// strictly as a configuration and with messages of the same form: each has the place of the mistake
// and the remedy. It is used by one goroutine.
type Reader struct{ walker }

// Value is a value of the text that a Reader reads. The zero Value stands for the text as a whole.
type Value struct{ node *node }

// Keys has for each key that a mapping may have the function that reads its value.
type Keys map[string]func(Value)

// IsZero reports whether v is the zero Value.
func (v Value) IsZero() bool { return v.node == nil }

// IsScalar reports whether v is a single value.
func (v Value) IsScalar() bool { return v.node != nil && v.node.kind == scalar }

// IsMapping reports whether v is a mapping.
func (v Value) IsMapping() bool { return v.node != nil && v.node.kind == mapping }

// NewReader parses text; name is the name of its file in messages. Each of the sets, such as
// "load.rate=5/s" or "tasks.0.payload=4KiB", replaces the value at a path; the number of an item
// stands for it in a list, and 0 also for a value that is no list. NewReader returns the document; an
// empty text is an empty mapping. If the text is not YAML, [Reader.Err] returns an error at once.
func NewReader(name, text string, sets ...string) (*Reader, Value) {
	r := &Reader{walker{found: &findings{}}}
	src := &source{name: name, text: text}
	if len(text) > maxFile {
		r.found.add(position{in: src}, "is larger than %s; put less into one file", units.ShowSize(maxFile))
		return r, Value{&node{at: position{in: src}}}
	}
	top := parse(src, r.found)
	if top == nil {
		top = &node{at: position{src, 1, 1}}
	}
	return r, Value{override(top, sets, true, r.found)}
}

// Err returns an *[Errors] with everything that was wrong so far, or nil.
func (r *Reader) Err() error { return r.found.err() }

// Fault records a mistake in v and the remedy.
func (r *Reader) Fault(v Value, format string, args ...any) {
	if v.node == nil {
		v.node = &node{}
	}
	r.fault(v.node.at, format, args...)
}

// Object reads a mapping with the given keys, in the order of the text. It returns the values in the
// text, by key; nil if v is no mapping.
func (r *Reader) Object(v Value, keys Keys) map[string]Value {
	names := slices.Sorted(maps.Keys(keys))
	if v.node.kind != nothing && !r.is(v.node, mapping, "keys such as "+names[0]) {
		return nil
	}
	there := make(map[string]Value)
	for _, e := range v.node.entries {
		read, known := keys[e.key]
		switch {
		case !known:
			r.fault(e.at, "%s is no key here; %s", name(e.key), suggest.Advice(e.key, names))
		case e.value.kind == nothing:
			r.fault(e.at, "%s has no value; write one, or remove the key", name(e.key))
			there[e.key] = Value{e.value}
		default:
			there[e.key] = Value{e.value}
			r.enter(e.key, e.value.at, func() { read(Value{e.value}) })
		}
	}
	return there
}

// Map reads a mapping with keys of the author's choice. want describes it in messages, such as "a
// mapping of types". Read gets each key, as a Value to report mistakes at, and its value.
func (r *Reader) Map(v Value, want string, read func(name string, key, value Value)) {
	if !r.is(v.node, mapping, want) {
		return
	}
	for _, e := range v.node.entries {
		r.enter(e.key, e.at, func() { read(e.key, Value{&node{at: e.at}}, Value{e.value}) })
	}
}

// List reads the items of a list. A value that is no list is a list of one.
func (r *Reader) List(v Value, read func(Value)) {
	if v.node.kind != list {
		read(v)
		return
	}
	for i, item := range v.node.items {
		r.enter(strconv.Itoa(i), item.at, func() { read(Value{item}) })
	}
}

// Scalar returns a function that reads a single value into *into. Want describes the value, such as "a
// name". An error of parse completes a sentence about the value and contains the remedy.
func Scalar[T any](r *Reader, into *T, want string, parse func(string) (T, error)) func(Value) {
	return func(v Value) {
		if !r.is(v.node, scalar, want) {
			return
		}
		read, err := parse(v.node.text)
		if err != nil {
			r.fault(v.node.at, "%v", err)
			return
		}
		*into = read
	}
}

// Choice returns a function that reads one of some words.
func Choice[T ~string](r *Reader, into *T, words ...T) func(Value) {
	names := make([]string, len(words))
	for i, w := range words {
		names[i] = string(w)
	}
	return Scalar(r, into, suggest.Either(names), func(s string) (T, error) {
		if !slices.Contains(words, T(s)) {
			return "", fmt.Errorf("%.40q is none of them; %s", s, suggest.Advice(s, names))
		}
		return T(s), nil
	})
}

// Text returns a function that reads text that is not blank, without the blanks around it.
func (r *Reader) Text(into *string) func(Value) {
	return Scalar(r, into, "string", func(s string) (string, error) {
		if s = strings.TrimSpace(s); s == "" {
			return "", errors.New("is empty; write something")
		}
		return s, nil
	})
}

// Bool returns a function that reads true or false.
func (r *Reader) Bool(into *bool) func(Value) {
	return Scalar(r, into, "true or false", func(s string) (bool, error) {
		if s != "true" && s != "false" {
			return false, fmt.Errorf("%.40q is neither; write true or false", s)
		}
		return s == "true", nil
	})
}

// Whole returns a function that reads a whole number of least to most, such as 1000 or 1_000.
func (r *Reader) Whole(into *int, least, most int) func(Value) {
	want := fmt.Sprintf("a whole number from %d to %d", least, most)
	return Scalar(r, into, want, func(s string) (int, error) {
		n, err := strconv.Atoi(strings.ReplaceAll(s, "_", ""))
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("%.40q does not fit; write %s", s, want)
		}
		return n, nil
	})
}

// Number returns a function that reads a number of least to most.
func (r *Reader) Number(into *float64, least, most float64) func(Value) {
	want := fmt.Sprintf("a number from %v to %v", least, most)
	return Scalar(r, into, want, func(s string) (float64, error) {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || !(f >= least && f <= most) { // NaN does not fit either
			return 0, fmt.Errorf("%.40q does not fit; write %s", s, want)
		}
		return f, nil
	})
}

// Duration returns a function that reads a duration of at most most.
func (r *Reader) Duration(into *time.Duration, most time.Duration) func(Value) {
	return Scalar(r, into, aDuration, func(s string) (time.Duration, error) {
		d, err := units.ParseDuration(s)
		if err == nil && d > most {
			err = fmt.Errorf("%s is too long; write at most %v", s, most)
		}
		return d, err
	})
}

// Size returns a function that reads a number of bytes of at most most.
func (r *Reader) Size(into *int, most int) func(Value) {
	return Scalar(r, into, "a size, such as 4KiB", func(s string) (int, error) {
		n, err := units.ParseSize(s)
		if err == nil && n > most {
			err = fmt.Errorf("%s is too large; write at most %s", s, units.ShowSize(most))
		}
		return n, err
	})
}

// Rate returns a function that reads a number of things per time, such as 200/s or 3/10m, as a
// number per second of more than 0, and of least to most.
func (r *Reader) Rate(into *float64, least, most float64) func(Value) {
	return Scalar(r, into, "a rate, such as 200/s", func(s string) (float64, error) {
		count, per, ok := strings.Cut(strings.ReplaceAll(s, "_", ""), "/")
		if !ok {
			return 0, fmt.Errorf("%.40q needs a unit; write it such as 200/s or 90/m", s)
		}
		if per != "" && (per[0] < '0' || per[0] > '9') {
			per = "1" + per
		}
		n, err := strconv.ParseFloat(count, 64)
		d, err2 := units.ParseDuration(per)
		perSecond := n / d.Seconds()
		if errors.Join(err, err2) != nil || !(n > 0 && perSecond >= least && perSecond <= most) {
			return 0, fmt.Errorf("%.40q is no rate up to %.0f/s; write it such as 200/s or 90/m", s, most)
		}
		return perSecond, nil
	})
}
