package config

import "log/slog"

// Text is a piece of text that may be a secret. Formatting it, logging it and
// marshalling it give the reference it came from, if it came from one; Reveal gives
// what it stands for.
type Text struct{ value, ref string }

// Reveal returns the text itself.
func (t Text) Reveal() string { return t.value }

// String returns the text, or its reference.
func (t Text) String() string {
	if t.ref != "" {
		return t.ref
	}
	return t.value
}

// GoString returns what String returns.
func (t Text) GoString() string { return t.String() }

// LogValue implements [slog.LogValuer].
func (t Text) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText implements [encoding.TextMarshaler].
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Equal reports whether t and other are the same text from the same reference.
func (t Text) Equal(other Text) bool { return t == other }
