package terminal

import (
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line returns s on one line and without anything that a terminal obeys. Each control
// character, each format character that changes how the text around it is shown, each line
// break and each byte that is not UTF-8 is replaced by its escape sequence in Go: \x1b, \n,
// \u202e, \xff. Other text is returned unchanged, backslashes included.
func Line(s string) string { return escape(s, "") }

// Lines is [Line] for text of several lines: newlines and tabs stay.
func Lines(s string) string { return escape(s, "\n\t") }

// escape replaces unsafe runes and bytes of s by escape sequences, except the runes in keep.
func escape(s, keep string) string {
	from := 0 // s[:from] is in b
	var b strings.Builder
	for i, r := range s {
		size := utf8.RuneLen(r)
		if r == utf8.RuneError {
			_, size = utf8.DecodeRuneInString(s[i:])
		}
		if broken := r == utf8.RuneError && size == 1; !broken && safe(r) || strings.ContainsRune(keep, r) && !broken {
			continue
		}
		quoted := strconv.Quote(s[i : i+size])
		b.WriteString(s[from:i])
		b.WriteString(quoted[1 : len(quoted)-1])
		from = i + size
	}
	if from == 0 {
		return s
	}
	b.WriteString(s[from:])
	return b.String()
}

// The two characters of category Cf that scripts need to join letters or to keep them apart.
const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
)

// safe reports whether a terminal only displays r.
func safe(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= ' ' && r != 0x7f
	}
	return unicode.IsPrint(r) || unicode.Is(unicode.Zs, r) || unicode.Is(unicode.Co, r) ||
		r == zeroWidthJoiner || r == zeroWidthNonJoiner
}

// JSONWriter returns a writer of JSON that may be printed on a terminal. It writes its input to
// w, with the characters that a terminal obeys and JSON permits replaced by escape sequences of
// JSON: the value is the same. A character must not be split between two calls of Write.
func JSONWriter(w io.Writer) io.Writer { return jsonWriter{w} }

type jsonWriter struct{ w io.Writer }

// Write implements [io.Writer].
func (j jsonWriter) Write(p []byte) (int, error) {
	n, from := 0, 0 // p[:from] is in out
	var out []byte
	for n < len(p) {
		if c := p[n]; c < utf8.RuneSelf && c != 0x7f { // JSON texts have no other control characters
			n++
			continue
		}
		r, size := utf8.DecodeRune(p[n:])
		if !safe(r) && (r != utf8.RuneError || size > 1) {
			out = appendJSONEscape(append(out, p[from:n]...), r)
			from = n + size
		}
		n += size
	}
	if from == 0 {
		return j.w.Write(p)
	}
	if _, err := j.w.Write(append(out, p[from:]...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func appendJSONEscape(b []byte, r rune) []byte {
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		return appendHex(appendHex(b, high), low)
	}
	return appendHex(b, r)
}

func appendHex(b []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	return append(b, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}
