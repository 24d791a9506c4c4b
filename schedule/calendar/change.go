package calendar

import "fmt"

// Gap is the policy for times of the day that a wall clock jumps over when it is put forward. It does
// not matter for expressions that allow every hour.
type Gap uint8

// The values of Gap, and their texts.
const (
	RunAfter Gap = iota // "run_after": fire once at the end of the gap
	Skip                // "skip": do not fire for them
)

// Repeat is the policy for times of the day that a wall clock shows again when it is put back. It does
// not matter for expressions that allow every hour.
type Repeat uint8

// The values of Repeat, and their texts.
const (
	First Repeat = iota // "first": fire only the first time
	Both                // "both": fire every time
)

func (g Gap) String() string { return word("Gap", uint8(g), "run_after", "skip") }

// MarshalText implements [encoding.TextMarshaler].
func (g Gap) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (g *Gap) UnmarshalText(text []byte) error {
	switch string(text) {
	case "run_after":
		*g = RunAfter
	case "skip":
		*g = Skip
	default:
		return fmt.Errorf("%.40q is not known; use run_after or skip", text)
	}
	return nil
}

func (r Repeat) String() string { return word("Repeat", uint8(r), "first", "both") }

// MarshalText implements [encoding.TextMarshaler].
func (r Repeat) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *Repeat) UnmarshalText(text []byte) error {
	switch string(text) {
	case "first":
		*r = First
	case "both":
		*r = Both
	default:
		return fmt.Errorf("%.40q is not known; use first or both", text)
	}
	return nil
}

func word(kind string, value uint8, words ...string) string {
	if int(value) < len(words) {
		return words[value]
	}
	return fmt.Sprintf("%s(%d)", kind, value)
}
