package timeslice

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/internal/suggest"
)

// Values are settings of a source or of one of its platforms. Nil is not set.
type Values struct {
	Start         *time.Time `json:"start,omitempty"`
	Interval      *Span      `json:"interval,omitempty"`
	CatchUp       *Span      `json:"catch_up_interval,omitempty"`
	Overlap       *Span      `json:"overlap,omitempty"`
	Lag           *Span      `json:"lag,omitempty"`
	Spread        *Span      `json:"spread,omitempty"`
	Timeout       *Span      `json:"timeout,omitempty"`
	Retries       *int       `json:"retries,omitempty"`
	RetryInterval *Span      `json:"retry_interval,omitempty"`
	Order         *Sequence  `json:"order,omitempty"`
	MaxOpen       *int       `json:"max_open,omitempty"`
	Breaker       *int       `json:"breaker,omitempty"`
	Probe         *Span      `json:"probe,omitempty"`
	LeastPart     *Span      `json:"least_part,omitempty"`
	NodeThreads   *int       `json:"node_threads,omitempty"`
	Threads       *int       `json:"threads,omitempty"`
}

// Settings are the values of a platform that are in force.
type Settings struct {
	Start         time.Time     // of the first slice; zero is when the platform was added
	Interval      time.Duration // the length of a slice
	CatchUp       time.Duration // the longest slice while the platform is behind, at least Interval
	Overlap       time.Duration // by how much earlier than its slice a task fetches; less than Interval
	Lag           time.Duration // how long after its end a slice is due, without the delay of its platform
	Spread        time.Duration // the delays of all platforms are shorter; see [Platform.Delay]
	Timeout       time.Duration // of an attempt; zero is that of the type
	Retries       int           // attempts after the first one
	RetryInterval time.Duration // before the first retry; k times as long before the k-th
	Order         Sequence
	MaxOpen       int           // slices that have neither ended nor failed, at most
	Breaker       int           // failed slices in a row that stop the platform; zero is never
	Probe         time.Duration // how long after that one of them is tried again; up to sixteen times as long later
	LeastPart     time.Duration // a part of a slice that was split is no shorter
	NodeThreads   int           // slices that run at once, at most, on each node; zero is no limit
	Threads       int           // likewise, on all nodes
}

// Bounds of settings.
const (
	LeastInterval = time.Second
	MostSpan      = 366 * 24 * time.Hour
	MostRetries   = 1_000_000
	MostOpen      = 500
	MostThreads   = 1_000_000
)

// DefaultSettings returns the settings of a platform for which only Interval is set, to ten seconds or more.
func DefaultSettings() Settings {
	return Settings{Retries: 5, RetryInterval: 10 * time.Second, MaxOpen: 64, Breaker: 5, Probe: time.Minute, LeastPart: time.Second}
}

// defaultsBeside returns the settings of a platform for which only interval is set, without the spread: see [Layers.Settings].
func defaultsBeside(interval time.Duration) Settings {
	s := DefaultSettings()
	s.Interval, s.CatchUp = interval, interval
	s.LeastPart = min(s.LeastPart, (interval / 10).Truncate(time.Millisecond)) // a slice of any interval can be split
	return s
}

// Sequence says whether slices of a platform may run at the same time.
type Sequence uint8

// The sequences.
const (
	Parallel Sequence = iota
	InOrder           // one at a time, the earliest first
)

var sequences = [...]string{Parallel: "parallel", InOrder: "in_order"}

// String returns the word for it in a configuration.
func (o Sequence) String() string { return sequences[o] }

// MarshalText implements [encoding.TextMarshaler].
func (o Sequence) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (o *Sequence) UnmarshalText(text []byte) error {
	i := slices.Index(sequences[:], string(text))
	if i < 0 {
		return fmt.Errorf("%q is not parallel or in_order", text)
	}
	*o = Sequence(i)
	return nil
}

// Span is a duration that is stored as text, such as 1h30m0s.
type Span time.Duration

// String returns the text.
func (s Span) String() string { return time.Duration(s).String() }

// MarshalText implements [encoding.TextMarshaler].
func (s Span) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*s = Span(d)
	return err
}

// Over returns v with the values that are not set taken from weaker.
func (v Values) Over(weaker Values) Values {
	return Values{
		Start: either(v.Start, weaker.Start), Interval: either(v.Interval, weaker.Interval), CatchUp: either(v.CatchUp, weaker.CatchUp),
		Overlap: either(v.Overlap, weaker.Overlap), Lag: either(v.Lag, weaker.Lag), Spread: either(v.Spread, weaker.Spread), Timeout: either(v.Timeout, weaker.Timeout),
		Retries: either(v.Retries, weaker.Retries), RetryInterval: either(v.RetryInterval, weaker.RetryInterval), Order: either(v.Order, weaker.Order),
		MaxOpen: either(v.MaxOpen, weaker.MaxOpen), Breaker: either(v.Breaker, weaker.Breaker), Probe: either(v.Probe, weaker.Probe), LeastPart: either(v.LeastPart, weaker.LeastPart),
		NodeThreads: either(v.NodeThreads, weaker.NodeThreads), Threads: either(v.Threads, weaker.Threads),
	}
}

func either[T any](strong, weak *T) *T {
	if strong != nil {
		return strong
	}
	return weak
}

// Settings returns the settings with these values, or an error that names the value that cannot be.
func (v Values) Settings() (Settings, error) {
	s := DefaultSettings()
	for _, span := range [...]struct {
		to *time.Duration
		of *Span
	}{{&s.Interval, v.Interval}, {&s.CatchUp, v.CatchUp}, {&s.Overlap, v.Overlap}, {&s.Lag, v.Lag}, {&s.Spread, v.Spread}, {&s.Timeout, v.Timeout}, {&s.RetryInterval, v.RetryInterval}, {&s.Probe, v.Probe}, {&s.LeastPart, v.LeastPart}} {
		if span.of != nil {
			*span.to = time.Duration(*span.of)
		}
	}
	for _, number := range [...]struct{ to, of *int }{{&s.Retries, v.Retries}, {&s.MaxOpen, v.MaxOpen}, {&s.Breaker, v.Breaker}, {&s.NodeThreads, v.NodeThreads}, {&s.Threads, v.Threads}} {
		if number.of != nil {
			*number.to = *number.of
		}
	}
	if v.Start != nil {
		s.Start = v.Start.UTC()
	}
	if v.Order != nil {
		s.Order = *v.Order
	}
	beside := defaultsBeside(s.Interval)
	if v.CatchUp == nil {
		s.CatchUp = beside.CatchUp
	}
	if v.LeastPart == nil {
		s.LeastPart = beside.LeastPart
	}
	return s, s.check()
}

func (s *Settings) check() error {
	switch {
	case s.Interval < LeastInterval || s.Interval > MostSpan:
		return fmt.Errorf("interval: %v is not between %v and %v", s.Interval, LeastInterval, MostSpan)
	case s.Interval%time.Millisecond != 0:
		return fmt.Errorf("interval: %v has a part of a millisecond", s.Interval)
	case s.CatchUp < s.Interval || s.CatchUp > MostSpan:
		return fmt.Errorf("catch_up_interval: %v is not between interval, %v, and %v", s.CatchUp, s.Interval, MostSpan)
	case s.Overlap < 0 || s.Overlap >= s.Interval:
		return fmt.Errorf("overlap: %v is not shorter than interval, %v", s.Overlap, s.Interval)
	case s.Spread < 0 || s.Spread > s.Interval:
		return fmt.Errorf("spread: %v is longer than interval, %v", s.Spread, s.Interval)
	case s.Retries < 0 || s.Retries > MostRetries:
		return fmt.Errorf("retries: %d is not between 0 and %d", s.Retries, MostRetries)
	case s.MaxOpen < 1 || s.MaxOpen > MostOpen:
		return fmt.Errorf("max_open: %d is not between 1 and %d", s.MaxOpen, MostOpen)
	case s.Breaker < 0 || s.Breaker > MostOpen:
		return fmt.Errorf("breaker: %d is not between 0 and %d", s.Breaker, MostOpen)
	case s.NodeThreads < 0 || s.NodeThreads > MostThreads:
		return fmt.Errorf("%s: %d is not between 0 and %d", NodeThreads, s.NodeThreads, MostThreads)
	case s.Threads < 0 || s.Threads > MostThreads:
		return fmt.Errorf("%s: %d is not between 0 and %d", ClusterThreads, s.Threads, MostThreads)
	case s.Probe < time.Second || s.Probe > MostSpan:
		return fmt.Errorf("probe: %v is not between 1s and %v", s.Probe, MostSpan)
	case s.LeastPart < time.Millisecond || s.LeastPart > MostSpan:
		return fmt.Errorf("least_part: %v is not between 1ms and %v", s.LeastPart, MostSpan)
	case !s.Start.IsZero() && (s.Start.Unix() < 0 || s.Start.Year() > 9998):
		return fmt.Errorf("start: %v is not between the years 1970 and 9998", s.Start)
	}
	for name, d := range map[string]time.Duration{"lag": s.Lag, "timeout": s.Timeout, "retry_interval": s.RetryInterval} {
		if d < 0 || d > MostSpan {
			return fmt.Errorf("%s: %v is not between 0s and %v", name, d, MostSpan)
		}
	}
	return nil
}

// The names of the values that are limits of the engine, with the platforms as values, see [ThreadsLimits].
const (
	NodeThreads    = "threads.node"
	ClusterThreads = "threads.cluster"
)

// key is one of the values, by its name in a configuration.
type key struct {
	parse func(v *Values, text string) error
	get   func(v *Values) (text string, ok bool)
	unset func(v *Values)
}

// keys returns all values by their names.
func keys() map[string]key {
	return map[string]key{
		"start":             keyOf(func(v *Values) **time.Time { return &v.Start }, parseStart, func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }),
		"interval":          keyOf(func(v *Values) **Span { return &v.Interval }, parseSpan, Span.String),
		"catch_up_interval": keyOf(func(v *Values) **Span { return &v.CatchUp }, parseSpan, Span.String),
		"overlap":           keyOf(func(v *Values) **Span { return &v.Overlap }, parseSpan, Span.String),
		"lag":               keyOf(func(v *Values) **Span { return &v.Lag }, parseSpan, Span.String),
		"spread":            keyOf(func(v *Values) **Span { return &v.Spread }, parseSpan, Span.String),
		"timeout":           keyOf(func(v *Values) **Span { return &v.Timeout }, parseSpan, Span.String),
		"retries":           keyOf(func(v *Values) **int { return &v.Retries }, strconv.Atoi, strconv.Itoa),
		"retry_interval":    keyOf(func(v *Values) **Span { return &v.RetryInterval }, parseSpan, Span.String),
		"order":             keyOf(func(v *Values) **Sequence { return &v.Order }, parseSequence, Sequence.String),
		"max_open":          keyOf(func(v *Values) **int { return &v.MaxOpen }, strconv.Atoi, strconv.Itoa),
		"breaker":           keyOf(func(v *Values) **int { return &v.Breaker }, strconv.Atoi, strconv.Itoa),
		"probe":             keyOf(func(v *Values) **Span { return &v.Probe }, parseSpan, Span.String),
		"least_part":        keyOf(func(v *Values) **Span { return &v.LeastPart }, parseSpan, Span.String),
		NodeThreads:         keyOf(func(v *Values) **int { return &v.NodeThreads }, strconv.Atoi, strconv.Itoa),
		ClusterThreads:      keyOf(func(v *Values) **int { return &v.Threads }, strconv.Atoi, strconv.Itoa),
	}
}

func keyOf[T any](at func(*Values) **T, parse func(string) (T, error), text func(T) string) key {
	return key{
		parse: func(v *Values, s string) error {
			value, err := parse(s)
			if err == nil {
				*at(v) = &value
			}
			return err
		},
		get: func(v *Values) (string, bool) {
			if *at(v) == nil {
				return "", false
			}
			return text(**at(v)), true
		},
		unset: func(v *Values) { *at(v) = nil },
	}
}

func parseStart(text string) (time.Time, error) { return time.Parse(time.RFC3339Nano, text) }

func parseSpan(text string) (s Span, err error) {
	err = s.UnmarshalText([]byte(text))
	return s, err
}

func parseSequence(text string) (o Sequence, err error) {
	err = o.UnmarshalText([]byte(text))
	return o, err
}

// Set sets the value with a name. The empty text unsets it.
func (v *Values) Set(name, text string) error {
	all := keys()
	k, ok := all[name]
	switch {
	case !ok:
		known := slices.Sorted(maps.Keys(all))
		if near := suggest.Nearest(name, known); near != "" {
			return fmt.Errorf("%w: no value of slices is called %q; did you mean %s?", ErrInvalid, name, near)
		}
		return fmt.Errorf("%w: no value of slices is called %q; there are %s", ErrInvalid, name, strings.Join(known, ", "))
	case text == "":
		k.unset(v)
		return nil
	}
	if err := k.parse(v, text); err != nil {
		return fmt.Errorf("%w: %s: %q cannot be read: %w", ErrInvalid, name, text, err)
	}
	return nil
}

// All returns the values that are set, as texts by their names.
func (v *Values) All() map[string]string {
	all := make(map[string]string)
	for name, k := range keys() {
		if text, ok := k.get(v); ok {
			all[name] = text
		}
	}
	return all
}

// Layers are the values of a platform, and where they come from. A value of the platform counts for more than one of its source,
// and one that was set while nodes run for more than one of the configuration.
type Layers struct {
	File    Values `json:"file,omitzero"`     // of the source, in the configuration
	Live    Values `json:"live,omitzero"`     // of the source, set while nodes run
	FileOwn Values `json:"file_own,omitzero"` // of the platform, in the configuration
	Own     Values `json:"own,omitzero"`      // of the platform, set while nodes run

	Platforms int `json:"platforms,omitempty"` // that the configuration of the source has
}

// Settings returns the settings that the layers make.
func (l *Layers) Settings() (Settings, error) {
	all := l.Own.Over(l.FileOwn).Over(l.Live).Over(l.File)
	s, err := all.Settings()
	if all.Spread == nil {
		s.Spread = l.usualSpread(s.Interval)
	}
	return s, err
}

// usualSpread returns the spread if none is set. It grows with the number of platforms, of which a node can begin a slice of more than
// one in a millisecond, and is a small part of the time by which the platform is behind anyway.
func (l *Layers) usualSpread(interval time.Duration) time.Duration {
	return min(time.Duration(l.Platforms)*time.Millisecond, interval/10).Truncate(time.Millisecond)
}

// Setting is a setting that is in force, as texts, and the layer that it is from.
type Setting struct{ Name, Value, From string }

// The layers of a [Setting].
const (
	FromOwn     = "own"      // of the platform, set while nodes run
	FromFileOwn = "file_own" // of the platform, in the configuration
	FromLive    = "live"     // of the source, set while nodes run
	FromFile    = "file"     // of the source, in the configuration
	FromDefault = "default"
	FromBefore  = "before" // the layers cannot be: an earlier value stays in force
)

// Origins returns the settings in force by their names, and the layer of each. Settings that have no value, such as a start that
// is not set, are left out.
func (l *Layers) Origins(used *Settings) (all []Setting) {
	texts := used.values().All()
	layers := [...]struct {
		from string
		of   map[string]string
	}{{FromOwn, l.Own.All()}, {FromFileOwn, l.FileOwn.All()}, {FromLive, l.Live.All()}, {FromFile, l.File.All()}}
	defaults := defaultsBeside(used.Interval)
	defaults.Spread = l.usualSpread(used.Interval)
	standard := defaults.values().All()
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		one := Setting{Name: name, Value: texts[name]}
		wanted, from := standard[name], FromDefault
		for _, layer := range layers {
			if text, ok := layer.of[name]; ok {
				wanted, from = text, layer.from
				break
			}
		}
		if one.From = from; wanted != one.Value {
			one.From = FromBefore
		}
		all = append(all, one)
	}
	return all
}

// values returns the settings as values. A start that is not set is none.
func (s *Settings) values() *Values {
	span := func(d time.Duration) *Span { return new(Span(d)) }
	v := &Values{
		Interval: span(s.Interval), CatchUp: span(s.CatchUp), Overlap: span(s.Overlap), Lag: span(s.Lag), Spread: span(s.Spread), Timeout: span(s.Timeout),
		Retries: &s.Retries, RetryInterval: span(s.RetryInterval), Order: &s.Order, MaxOpen: &s.MaxOpen, Breaker: &s.Breaker, Probe: span(s.Probe), LeastPart: span(s.LeastPart),
		NodeThreads: &s.NodeThreads, Threads: &s.Threads,
	}
	if !s.Start.IsZero() {
		v.Start = &s.Start
	}
	return v
}
