package cli

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"
)

// appendJSON appends a value that messageJSON returns, or json.Marshal takes. Lists of a million tasks are written by it: it encodes each value once,
// whereas json.Marshal checks and copies what a MarshalJSON returns for each object around it.
func appendJSON(b []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case string:
		if isPlainJSON(v) {
			return append(append(append(b, '"'), v...), '"'), nil
		}
	case bool:
		return strconv.AppendBool(b, v), nil
	case int32:
		return strconv.AppendInt(b, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case uint32:
		return strconv.AppendUint(b, uint64(v), 10), nil
	case uint64:
		return strconv.AppendUint(b, v, 10), nil
	case time.Time:
		if year := v.Year(); year >= 0 && year < 10_000 && v.Location() == time.UTC {
			return append(v.AppendFormat(append(b, '"'), time.RFC3339Nano), '"'), nil
		}
	case jsonObject:
		return v.append(b)
	case []any:
		b = append(b, '[')
		for i, one := range v {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendJSON(b, one); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case map[string]any:
		o := make(jsonObject, 0, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			o = append(o, jsonField{name, v[name]})
		}
		return o.append(b)
	}
	text := bytes.NewBuffer(b)
	e := json.NewEncoder(text)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// append appends o as JSON.
func (o jsonObject) append(b []byte) (_ []byte, err error) {
	b = append(b, '{')
	for i, f := range o {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendJSON(b, f.name); err != nil {
			return nil, err
		}
		if b, err = appendJSON(append(b, ':'), f.value); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// isPlainJSON reports whether text is in JSON as it is: printable ASCII without quotes and backslashes.
func isPlainJSON(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
