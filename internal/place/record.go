package place

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// CheckRecord returns an error if s does not name the place of a value in a record of a topic: key, value, value.NAME,
// headers.NAME, topic, partition, offset or timestamp. NAME is a member of a JSON object, or a.b for the member b of the
// member a; the name of a header may have dots. A name has neither spaces nor characters that cannot be printed.
func CheckRecord(s string) error {
	part, rest, named := strings.Cut(s, ".")
	switch part {
	case "key", "topic", "partition", "offset", "timestamp":
		if !named {
			return nil
		}
	case "value":
		if !named || isName(rest) && !strings.Contains("."+rest+".", "..") {
			return nil
		}
	case "headers":
		if isName(rest) {
			return nil
		}
	}
	return fmt.Errorf("%.40q is not a place in a record; write key, value, value.NAME, headers.NAME, topic, partition, offset or timestamp", s)
}

func isName(s string) bool {
	return s != "" && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
}

// Record has the parts of a record of a topic that have places. It remembers whether its value is JSON. It is not safe for
// concurrent use.
type Record struct {
	Topic      string
	Partition  int32
	Offset     int64
	Timestamp  time.Time // zero: none
	Key, Value []byte
	Header     func(name string) []byte // the value of a header; nil if it is missing

	isChecked bool
	notJSON   error // of Value, once that is checked
}

// Bytes returns the value at a place that [CheckRecord] accepts: a key, value or header as it is, text of a JSON value as it
// is, and another JSON value as it is written there. A value that is missing, empty or null is nil; an empty value has no
// members. Text with bytes or surrogates that are no Unicode is an error, because readers of JSON replace these. The result
// may be a part of the record.
func (r *Record) Bytes(place string) ([]byte, error) {
	b, raw, err := r.at(place)
	if err != nil || raw == nil {
		return b, err
	}
	return written(raw)
}

// Scalar is [Record.Bytes], and returns an error for a member of the value that is an object or a list.
func (r *Record) Scalar(place string) ([]byte, error) {
	b, raw, err := r.at(place)
	if err != nil || raw == nil {
		return b, err
	}
	s, err := scalar(raw)
	return notEmpty(s), err
}

// at returns the value at a place: bytes, or JSON that is a member of the value of the record.
func (r *Record) at(place string) (b, raw []byte, err error) {
	switch place {
	case "key":
		return orNil(r.Key), nil, nil
	case "value":
		return orNil(r.Value), nil, nil
	case "topic":
		return notEmpty(r.Topic), nil, nil
	case "partition":
		return strconv.AppendInt(nil, int64(r.Partition), 10), nil, nil
	case "offset":
		return strconv.AppendInt(nil, r.Offset, 10), nil, nil
	case "timestamp":
		return notEmpty(Moment(r.Timestamp)), nil, nil
	}
	part, rest, _ := strings.Cut(place, ".")
	switch part {
	case "headers":
		return orNil(r.Header(rest)), nil, nil
	case "value":
		raw, err := r.member(rest)
		return nil, raw, err
	}
	return nil, nil, fmt.Errorf("%q is not a place in a record", place)
}

// member returns a member of the value, nil if it is missing.
func (r *Record) member(path string) ([]byte, error) {
	if len(r.Value) == 0 {
		return nil, nil
	}
	if !r.isChecked {
		r.notJSON = check(r.Value)
		r.isChecked = true
	}
	if r.notJSON != nil {
		return nil, r.notJSON
	}
	raw, name := r.Value, ""
	for isMore := true; isMore; {
		name, path, isMore = strings.Cut(path, ".")
		var err error
		if raw, err = member(raw, name); raw == nil || err != nil {
			return nil, err
		}
	}
	if !isUnicode(raw) {
		return nil, errNotUnicode
	}
	return raw, nil
}

// Moment returns a time as RFC 3339 with milliseconds in UTC; "" for a time before 1970 or after the year 9999, which
// records without a time have.
func Moment(t time.Time) string {
	if t.UnixMilli() < 0 || t.UTC().Year() > 9999 {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

func orNil(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}
