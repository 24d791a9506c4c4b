package config

import (
	"cmp"
	"log/slog"
)

// Text is a text that may be a secret. Formatting, logging and marshalling it give the reference
// that it came from, if any, and otherwise the text without its secrets, see [masked]. Reveal
// returns the text.
type Text struct {
	value string
	shown string // instead of it; "" for the text itself
}

// Reveal returns the text itself.
func (t Text) Reveal() string { return t.value }

// String returns the text, or the text to show instead.
func (t Text) String() string { return cmp.Or(t.shown, t.value) }

// GoString returns what String returns.
func (t Text) GoString() string { return t.String() }

// LogValue implements [slog.LogValuer].
func (t Text) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText implements [encoding.TextMarshaler].
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Equal reports whether t and other are the same text from the same reference.
func (t Text) Equal(other Text) bool { return t == other }
