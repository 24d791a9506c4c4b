package capacity

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/taskengine/taskengine/config"
)

// maxLoad is how large the description of a load may be, in bytes.
const maxLoad = 1 << 20

// reader reads the description of a load and collects what is wrong with it.
type reader struct {
	source   *config.Source
	problems []config.Problem
}

// object reads the values of a mapping, by key.
type object map[string]func(*yaml.Node)

func (r *reader) fault(n *yaml.Node, format string, args ...any) {
	const most = 100
	if len(r.problems) < most {
		r.problems = append(r.problems, r.source.Problem(max(1, n.Line), max(1, n.Column), fmt.Sprintf(format, args...)))
	}
}

// document returns the document of the source; nil if there is none to be read.
func (r *reader) document() *yaml.Node {
	top := r.source.Document(func(line, column int, text string) {
		r.fault(&yaml.Node{Line: line, Column: column}, "%s", text)
	})
	if top == nil && len(r.problems) == 0 {
		r.fault(&yaml.Node{}, "says nothing; write an objective and types")
	}
	return top
}

// is reports whether n is of a kind, and says so if it is not.
func (r *reader) is(n *yaml.Node, kind yaml.Kind, want string) bool {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		r.fault(n, "anchors and aliases are not supported; write the value itself")
		return false
	}
	if n.Kind != kind || kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		r.fault(n, "want %s", want)
		return false
	}
	return true
}

// each calls fn with every key of a mapping.
func (r *reader) each(n *yaml.Node, want string, fn func(key, value *yaml.Node)) {
	if !r.is(n, yaml.MappingNode, want) {
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case key.Kind != yaml.ScalarNode || key.Value == "" || key.Tag == "!!merge":
			r.fault(key, "a key must be a single word")
		case seen[key.Value]:
			r.fault(key, "%.40q is here a second time; keep one of them", key.Value)
		default:
			seen[key.Value] = true
			fn(key, n.Content[i+1])
		}
	}
}

// read reads a mapping whose keys are those of o.
func (r *reader) read(n *yaml.Node, o object) {
	keys := make([]string, 0, len(o))
	for k := range o {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	r.each(n, "a mapping with "+strings.Join(keys, ", "), func(key, value *yaml.Node) {
		if fn, ok := o[key.Value]; ok {
			fn(value)
			return
		}
		r.fault(key, "%.40q is not known here; %s", key.Value, config.DidYouMean(key.Value, keys))
	})
}

// scalar returns a reader of single values that parse understands.
func scalar[T any](r *reader, into *T, want string, parse func(string) (T, error)) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if !r.is(n, yaml.ScalarNode, want) {
			return
		}
		v, err := parse(n.Value)
		if err != nil {
			r.fault(n, "%.40q is not %s: %v", n.Value, want, err)
			return
		}
		*into = v
	}
}

func (r *reader) duration(into *time.Duration) func(*yaml.Node) {
	return scalar(r, into, "a duration such as 20ms", parseDuration)
}

func (r *reader) size(into *int) func(*yaml.Node) {
	return scalar(r, into, "a size such as 4KiB", parseSize)
}

func (r *reader) rate(into *float64) func(*yaml.Node) {
	return scalar(r, into, "a rate such as 200/s", parseRate)
}

func (r *reader) whole(into *int, least, most int) func(*yaml.Node) {
	return scalar(r, into, fmt.Sprintf("a number from %d to %d", least, most), func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most {
			return 0, errors.New("it is no number, or out of that range")
		}
		return n, nil
	})
}

func (r *reader) number(into *float64, least, most float64) func(*yaml.Node) {
	return scalar(r, into, fmt.Sprintf("a number from %v to %v", least, most), func(s string) (float64, error) {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || !(f >= least && f <= most) {
			return 0, errors.New("it is no number, or out of that range")
		}
		return f, nil
	})
}

// longest is the longest duration that is read.
const longest = 100 * 365 * 24 * time.Hour

// parseDuration is [config.ParseDuration] with a bound.
func parseDuration(s string) (time.Duration, error) {
	d, err := config.ParseDuration(s)
	if err == nil && d > longest {
		err = errors.New("it is more than a hundred years")
	}
	return d, err
}

// parseSize is [config.ParseSize] with a bound.
func parseSize(s string) (int, error) {
	const most = 1 << 30
	n, err := config.ParseSize(s)
	if err == nil && n > most {
		err = errors.New("it is more than 1GiB")
	}
	return n, err
}

// maxRate is the highest rate that is read, in tasks per second.
const maxRate = 10_000_000

// parseRate reads tasks per time, such as 200/s or 3/10m.
func parseRate(s string) (float64, error) {
	count, per, ok := strings.Cut(s, "/")
	n, err := strconv.ParseFloat(count, 64)
	if !ok || err != nil || !(n > 0) || math.IsInf(n, 0) {
		return 0, errors.New("write tasks per time, such as 200/s")
	}
	if per != "" && (per[0] < '0' || per[0] > '9') {
		per = "1" + per
	}
	d, err := parseDuration(per)
	if err != nil || d == 0 || n/d.Seconds() > maxRate {
		return 0, fmt.Errorf("write tasks per time, such as 200/s, at most %d/s", maxRate)
	}
	return n / d.Seconds(), nil
}
