package task

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strings"
	"unicode/utf8"
)

// ErrorKind identifies the errors whose texts differ only in numbers, ids and addresses. The zero ErrorKind is that of no error.
type ErrorKind uint64

// String returns the 16 hexadecimal digits of k.
func (k ErrorKind) String() string { return fmt.Sprintf("%016x", uint64(k)) }

// KindRange is a range of kinds of errors.
type KindRange struct {
	From, To ErrorKind // both are in it
}

// Has reports whether a kind is in r.
func (r KindRange) Has(k ErrorKind) bool { return r.From <= k && k <= r.To }

// KindOfError returns the kind of an error in a row, see [Task.LastError]. Kinds are stored: a change of the algorithm
// is one of the format.
func KindOfError(text string) ErrorKind {
	if text == "" {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(ErrorPattern(text)))
	return ErrorKind(max(h.Sum64(), 1))
}

// ErrorPattern returns an error with # in the place of each number, id and address, and with one space in the place of
// each run of spaces. Numbers after a word such as status or code are kept: they say which error it is.
func ErrorPattern(text string) string {
	p := patterner{rest: text}
	p.out.Grow(min(len(text), MaxErrorText))
	for p.rest != "" && p.out.Len() < MaxErrorText {
		p.next()
	}
	p.flush()
	return strings.TrimSuffix(strings.TrimSpace(p.out.String()), lastAttempt)
}

// lastAttempt is the pattern of the end of an error after which a task is not tried again: before that it was the same error.
const lastAttempt = " (attempt # of #)"

// patterner writes the pattern of a text.
type patterner struct {
	rest  string
	out   strings.Builder
	word  string // the word before, if nothing but space and punctuation is after it
	taken bool   // out ends with #
	join  string // punctuation after that, which is left out if another # follows
}

func (p *patterner) next() {
	switch n := wordLen(p.rest); {
	case n > 0:
		if v := versionLen(p.rest[n:]); v > 0 && strings.EqualFold(p.rest[:n], "http") {
			p.flush()
			p.out.WriteString(p.rest[:n+v])
			p.word, p.rest = "http", p.rest[n+v:]
			return
		}
		if isUUID(p.rest) {
			n = uuidLen
		}
		p.add(p.rest[:n])
		p.rest = p.rest[n:]
	case isSpace(p.rest[0]):
		p.rest = strings.TrimLeftFunc(p.rest, func(r rune) bool { return r < utf8.RuneSelf && isSpace(byte(r)) })
		p.flush()
		p.out.WriteByte(' ')
	default:
		if strings.HasPrefix(p.rest, "//") {
			p.word = "" // that of a URL, in front of an address
		}
		_, n := utf8.DecodeRuneInString(p.rest)
		if mark := p.rest[:n]; p.taken && len(p.join) < 2 && strings.Contains(joins, mark) {
			p.join += mark
		} else {
			p.flush()
			p.out.WriteString(mark)
		}
		p.rest = p.rest[n:]
	}
}

// joins are the marks within times, addresses, paths and ids.
const joins = "-.:/+@,"

// flush ends a run of #.
func (p *patterner) flush() {
	p.out.WriteString(p.join)
	p.taken, p.join = false, ""
}

// add writes a word, or # for one that differs from error to error.
func (p *patterner) add(word string) {
	before := p.word
	p.word = strings.ToLower(word)
	switch {
	case isCode(before, word):
	case isID(word), len(word) == uuidLen && isUUID(word), p.join != "" && isHex(word):
		if !p.taken {
			p.out.WriteByte('#')
		}
		p.taken, p.join = true, ""
		return
	default:
		word = withoutDigits(word)
	}
	p.flush()
	p.out.WriteString(word)
}

// isCode reports whether word is a number that says which error it is, by the word before.
func isCode(before, word string) bool {
	if len(word) > 5 || strings.Trim(word, "0123456789") != "" {
		return false
	}
	switch before {
	case "status", "code", "errno", "exit", "http", "signal", "sqlstate", "answered":
		return true
	}
	return false
}

// isID reports whether a word is a number, or looks like an id: it is hexadecimal with a digit, or has several runs of digits.
func isID(word string) bool {
	digits, runs, in := 0, 0, false
	for i := range len(word) {
		is := '0' <= word[i] && word[i] <= '9'
		if is {
			digits++
		}
		if is && !in {
			runs++
		}
		in = is
	}
	switch {
	case digits == 0:
		return false
	case digits == len(word):
		return true
	case strings.HasPrefix(word, "0x"), len(word) >= 4 && isHex(word), len(word) >= 8 && runs > 1:
		return true
	}
	return '0' <= word[0] && word[0] <= '9' // 17ms, 3rd
}

// versionLen returns the length of the version of HTTP with which text begins, such as /1.1, or 0.
func versionLen(text string) int {
	if len(text) < 2 || text[0] != '/' || text[1] < '1' || text[1] > '3' {
		return 0
	}
	if len(text) > 3 && text[2] == '.' && (text[3] == '0' || text[3] == '1') {
		return 4
	}
	return 2
}

const uuidLen = 36

// isUUID reports whether text begins with a UUID.
func isUUID(text string) bool {
	if len(text) < uuidLen || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return false
	}
	return isHex(strings.ReplaceAll(text[:uuidLen], "-", ""))
}

func isHex(word string) bool {
	if len(word)%2 == 1 {
		word = word[1:]
	}
	_, err := hex.DecodeString(word)
	return err == nil
}

// withoutDigits puts # in the place of each number in a word.
func withoutDigits(word string) string {
	if !strings.ContainsAny(word, "0123456789") {
		return word
	}
	var out strings.Builder
	in := false
	for i := range len(word) {
		is := '0' <= word[i] && word[i] <= '9'
		switch {
		case !is:
			out.WriteByte(word[i])
		case !in:
			out.WriteByte('#')
		}
		in = is
	}
	return out.String()
}

// wordLen returns the length of the ASCII letters, digits and underscores with which text begins.
func wordLen(text string) int {
	for i := range len(text) {
		if c := text[i]; c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return i
		}
	}
	return len(text)
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }
