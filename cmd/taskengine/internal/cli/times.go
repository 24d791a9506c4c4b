package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/internal/units"
)

// duration is a flag such as 1d12h30m. It is not negative.
type duration time.Duration

// String implements [pflag.Value].
func (d *duration) String() string { return time.Duration(*d).String() }

// Type implements [pflag.Value].
func (d *duration) Type() string { return "duration" }

// Set implements [pflag.Value].
func (d *duration) Set(s string) error {
	v, err := parseDuration(s)
	*d = duration(v)
	return err
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *duration) UnmarshalText(text []byte) error { return d.Set(string(text)) }

// parseDuration parses a duration like [time.ParseDuration], with optional days in front.
func parseDuration(s string) (time.Duration, error) {
	var days float64
	rest := s
	if before, after, ok := strings.Cut(s, "d"); ok {
		var err error
		if days, err = strconv.ParseFloat(before, 64); err != nil || !(days >= 0 && days < 100_000) {
			return 0, fmt.Errorf("%.40q is no duration such as 90s, 1.5h or 2d12h", s)
		}
		rest = after
	}
	total := time.Duration(days * float64(24*time.Hour))
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 || total+d < total {
			return 0, fmt.Errorf("%.40q is no duration such as 90s, 1.5h or 2d12h", s)
		}
		total += d
	}
	if s == "" || s == "0" {
		return 0, fmt.Errorf("%.40q needs a unit, such as 0s", s)
	}
	return total, nil
}

// instant is a flag such as 2026-12-24T18:00:00Z.
type instant time.Time

// String implements [pflag.Value].
func (i *instant) String() string {
	if time.Time(*i).IsZero() {
		return ""
	}
	return time.Time(*i).Format(time.RFC3339Nano)
}

// Type implements [pflag.Value].
func (i *instant) Type() string { return "time" }

// Set implements [pflag.Value].
func (i *instant) Set(s string) error {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return fmt.Errorf("%.40q is no time such as 2026-12-24T18:00:00Z or 2026-12-24T18:00:00+02:00 (RFC 3339)", s)
	}
	*i = instant(t)
	return nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (i *instant) UnmarshalText(text []byte) error { return i.Set(string(text)) }

// message returns the time for a request; nil if none is given.
func (i *instant) message() *timestamppb.Timestamp {
	if i == nil || time.Time(*i).IsZero() {
		return nil
	}
	return timestamppb.New(time.Time(*i))
}

// message returns the duration for a request; nil if none is given.
func (d *duration) message() *durationpb.Duration {
	if d == nil {
		return nil
	}
	return durationpb.New(time.Duration(*d))
}

// age shows how long ago something was.
func age(now time.Time, t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return units.Span(now.Sub(t.AsTime()))
}

// briefAge shows how long ago something was by one unit.
func briefAge(t *timestamppb.Timestamp, now time.Time) string {
	if t == nil {
		return ""
	}
	return units.Brief(now.Sub(t.AsTime()))
}

// moment shows a time in a table: as the time between it and now or, with -o wide, as it is.
func (a *app) moment(t *timestamppb.Timestamp, now time.Time) string {
	if t == nil || a.output == wide {
		return when(t)
	}
	switch ahead := t.AsTime().Sub(now); {
	case ahead > 0:
		return "in " + units.Brief(ahead+time.Second-1)
	case ahead > -time.Second:
		return "now"
	default:
		return units.Brief(-ahead) + " ago"
	}
}

func when(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Format(time.RFC3339)
}

// durationText writes a duration as configurations have it, such as 1h30m.
func durationText(d *durationpb.Duration) string { return durationOf(d.AsDuration()) }

func durationOf(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}
