package config

import (
	"cmp"
	"fmt"
	"log/slog"
)

// Text is a text that may be a secret. Formatting, logging and marshalling it give the reference
// that it came from, if any, and otherwise the text without its secrets, see [masked]. Reveal
// returns the text.
type Text struct {
	value string
	shown string // instead of it; "" for the text itself
	file  string // the path of the file that has it; "" for none
}

// Reveal returns the text itself.
func (t Text) Reveal() string { return t.value }

// Now returns the text as it is now: a file is read again. A variable of the environment does not change.
func (t Text) Now() (string, error) {
	if t.file == "" {
		return t.value, nil
	}
	text, err := readSecret(t.file)
	if err != nil {
		return "", fmt.Errorf("%s cannot be read: %w", t.shown, err)
	}
	return text, nil
}

// String returns the text, or the text to show instead.
func (t Text) String() string { return cmp.Or(t.shown, t.value) }

// GoString is String.
func (t Text) GoString() string { return t.String() }

// LogValue implements [slog.LogValuer].
func (t Text) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText implements [encoding.TextMarshaler].
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Equal reports whether t and other are the same text from the same reference.
func (t Text) Equal(other Text) bool { return t == other }
