package source

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/taskengine/taskengine/internal/place"
	"github.com/taskengine/taskengine/task"
)

// MaxName is the length of the name of a source, in bytes.
const MaxName = 200

// DefaultPayload is the place of the payload in a record, unless a source names another one.
const DefaultPayload = "value"

// Definition says which records become tasks, and which tasks they become. Either Topics or Pattern is set, and either Type
// or TypeFrom. Places are described at [place.CheckRecord].
type Definition struct {
	Name string

	Topics  []string // the names of the topics
	Pattern string   // a regular expression, which the whole name of a topic must match; see Selection
	Start   Start
	// Group is the consumer group to which positions are also committed, for programs that show lag. The positions that
	// count are those in the store.
	Group string

	Type     string // of the tasks, or
	TypeFrom string // its place

	Key, OrderingKey string              // places; "" for none
	Payload          string              // a place; "" for DefaultPayload
	Headers          map[string]string   // places, by the names of headers of the task
	Filter           map[string][]string // a record becomes a task if it has one of the values at each place; "" stands for no value
}

// Headers of the task of a record, besides the ones that [Definition.Headers] names.
const (
	HeaderTopic     = "kafka-topic"
	HeaderPartition = "kafka-partition"
	HeaderOffset    = "kafka-offset"
	HeaderTimestamp = "kafka-timestamp" // RFC 3339 with milliseconds in UTC; none if the record has no time of the years 1970 to 9999

	headerParent = "traceparent"
	headerState  = "tracestate"
)

// CheckName returns an error if name cannot be the name of a source. The error completes a sentence about it.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("is empty; write the name of a source")
	case len(name) > MaxName:
		return fmt.Errorf("has %d bytes, of %d allowed in the name of a source", len(name), MaxName)
	case !utf8.ValidString(name):
		return errors.New("is not UTF-8 text, as the name of a source must be")
	}
	for _, r := range name {
		if r <= ' ' || r == 0x7f || r == '"' || r == '\\' {
			return fmt.Errorf("is not the name of a source, because of %q; use no spaces, quotes, backslashes and characters that cannot be printed", r)
		}
	}
	return nil
}

// CheckHeader returns an error if name cannot be one of [Definition.Headers]. The error completes a sentence about it.
func CheckHeader(name string) error {
	switch strings.ToLower(name) {
	case "":
		return errors.New("is empty; write the name of a header")
	case HeaderTopic, HeaderPartition, HeaderOffset, HeaderTimestamp, headerParent, headerState:
		return errors.New("is a header that each task gets from its record anyway; remove it")
	}
	if !utf8.ValidString(name) {
		return errors.New("is not UTF-8 text, as the name of a header must be")
	}
	return nil
}

// Check returns an error if d is wrong.
func (d *Definition) Check() error {
	if err := CheckName(d.Name); err != nil {
		return fmt.Errorf("the name %.40q %w", d.Name, err)
	}
	switch {
	case (len(d.Topics) == 0) == (d.Pattern == ""):
		return errors.New("there must be either topics or a pattern; write one of them")
	case (d.Type == "") == (d.TypeFrom == ""):
		return errors.New("there must be either a type or a type_from; write one of them")
	case task.IsReservedType(d.Type):
		return reservedType(d.Type)
	case d.Group == "":
		return errors.New("the group is empty")
	}
	if _, err := d.Selection(); err != nil {
		return err
	}
	for _, at := range [...]string{d.TypeFrom, d.Key, d.OrderingKey, d.Payload} {
		if at == "" {
			continue
		}
		if err := place.CheckRecord(at); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		if err := CheckHeader(name); err != nil {
			return fmt.Errorf("the header %.40q %w", name, err)
		}
		if err := place.CheckRecord(d.Headers[name]); err != nil {
			return fmt.Errorf("the header %s: %w", name, err)
		}
	}
	for _, at := range slices.Sorted(maps.Keys(d.Filter)) {
		if err := place.CheckRecord(at); err != nil {
			return fmt.Errorf("filter: %w", err)
		}
		if len(d.Filter[at]) == 0 {
			return fmt.Errorf("filter: %s has no values, so that no record would become a task; name some, or remove it", at)
		}
	}
	return nil
}

func reservedType(typ string) error {
	return fmt.Errorf("a source cannot add tasks of the type %.80q: types that begin with %s belong to the engine", typ, task.ReservedTypes)
}

// Selection returns a function that reports whether the source reads a topic. Pattern selects no topic that begins with
// "__", as the topics do that Kafka uses itself; Topics may name one. The function is safe for concurrent use.
func (d *Definition) Selection() (func(topic string) bool, error) {
	if d.Pattern == "" {
		topics := slices.Clone(d.Topics)
		return func(topic string) bool { return slices.Contains(topics, topic) }, nil
	}
	pattern, err := ParsePattern(d.Pattern)
	if err != nil {
		return nil, fmt.Errorf("the pattern %w", err)
	}
	return func(topic string) bool { return !isInternal(topic) && pattern.MatchString(topic) }, nil
}

// ParsePattern returns a regular expression that matches a topic if the whole of its name matches s. The error completes a
// sentence about s.
func ParsePattern(s string) (*regexp.Regexp, error) {
	alone, err := regexp.Compile(s) // before it gets a frame that could close its parentheses
	if err != nil {
		return nil, fmt.Errorf("is not a regular expression: %w; see https://github.com/google/re2/wiki/Syntax", err)
	}
	if prefix, _ := alone.LiteralPrefix(); isInternal(prefix) {
		return nil, errors.New("selects no topic, because a pattern does not apply to topics of Kafka itself, which begin with __; name them as topics")
	}
	whole, err := regexp.Compile(`\A(?:` + s + `)\z`)
	if err != nil {
		return nil, fmt.Errorf("is not a regular expression: %w; see https://github.com/google/re2/wiki/Syntax", err)
	}
	return whole, nil
}

// isInternal reports whether a topic is used by Kafka itself.
func isInternal(topic string) bool { return strings.HasPrefix(topic, "__") }

// Start says where a source begins in a partition that it has not read before. The zero value is the earliest record that
// the partition has.
type Start struct {
	latest bool
	at     time.Time // zero: none
}

// The words of starts that are no times.
const (
	earliest = "earliest"
	latest   = "latest"
)

// Latest returns the start behind the latest record.
func Latest() Start { return Start{latest: true} }

// StartAt returns the start at the first record with a time of at or later.
func StartAt(at time.Time) Start { return Start{at: at.UTC()} }

// ParseStart returns the start that s names: earliest, latest, or a time by RFC 3339.
func ParseStart(s string) (Start, error) {
	switch s {
	case earliest:
		return Start{}, nil
	case latest:
		return Latest(), nil
	}
	at, err := time.Parse(time.RFC3339, s)
	switch {
	case err != nil:
		return Start{}, fmt.Errorf("%.40q is neither earliest, latest nor a time with a zone; write one of them, such as 2026-01-31T18:00:00Z", s)
	case at.Unix() < 0 || at.UTC().Year() > 9999:
		return Start{}, fmt.Errorf("%s does not lie between the years 1970 and 9999", s)
	}
	return StartAt(at), nil
}

// IsLatest reports whether s is behind the latest record.
func (s Start) IsLatest() bool { return s.latest }

// Time returns the time of s in UTC; zero if s is the earliest or latest record.
func (s Start) Time() time.Time { return s.at }

// String returns the text that [ParseStart] reads as s.
func (s Start) String() string {
	switch {
	case s.latest:
		return latest
	case s.at.IsZero():
		return earliest
	}
	return s.at.Format(time.RFC3339Nano)
}
