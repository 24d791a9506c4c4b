package schedule

import (
	"fmt"
	"slices"
	"strings"
)

var (
	policyWords  = [...]string{Latest: "latest", None: "skip", All: "all"}
	overlapWords = [...]string{Skip: "skip", Queue: "queue", CancelOld: "cancel_old", Allow: "allow"}
)

// String returns the word for p in configurations.
func (p Policy) String() string { return word(policyWords[:], int(p)) }

// MarshalText implements [encoding.TextMarshaler].
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *Policy) UnmarshalText(text []byte) error {
	i, err := place(policyWords[:], string(text))
	*p = Policy(i)
	return err
}

// String returns the word for o in configurations.
func (o Overlap) String() string { return word(overlapWords[:], int(o)) }

// MarshalText implements [encoding.TextMarshaler].
func (o Overlap) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (o *Overlap) UnmarshalText(text []byte) error {
	i, err := place(overlapWords[:], string(text))
	*o = Overlap(i)
	return err
}

func word(words []string, i int) string {
	if i >= len(words) {
		return fmt.Sprint(i)
	}
	return words[i]
}

func place(words []string, text string) (int, error) {
	i := slices.Index(words, text)
	if i < 0 {
		return 0, fmt.Errorf("%q is none of %s", text, strings.Join(words, ", "))
	}
	return i, nil
}
