package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

const platformLine = 64 << 10 // bytes of one line of a file of platforms

// platformRow is a line of JSON of a file of platforms.
type platformRow struct {
	Name    string                `json:"name"`
	Values  *map[string]valueText `json:"values,omitempty"` // nil: they stay as they are
	Removed bool                  `json:"removed,omitempty"`
	Version *uint64               `json:"version,omitempty"` // nil: any
}

// valueText is the text of a value, which JSON may have as a number.
type valueText string

// UnmarshalJSON implements [json.Unmarshaler].
func (v *valueText) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		return json.Unmarshal(text, (*string)(v))
	}
	var n json.Number
	if err := json.Unmarshal(text, &n); err != nil || n == "" {
		return fmt.Errorf("%.80s is neither a text nor a number", text)
	}
	*v = valueText(n)
	return nil
}

// readPlatforms reads the rows of a file; - is the standard input. Each line is the name of a platform, or an object; lines that are empty or
// begin with # are skipped.
func readPlatforms(name string, stdin io.Reader) (rows []*taskenginev1.PlatformRow, err error) {
	input := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, exit.Errorf(exit.Usage, "open the file of platforms: %w", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		input = f
	}
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, platformLine)
	for number := 1; lines.Scan(); number++ {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		row, err := parsePlatform(text)
		if err != nil {
			return nil, exit.Errorf(exit.Usage, "line %d of %s: %w", number, clean(name), err)
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		return nil, exit.Errorf(exit.Usage, "read the file of platforms %s: %w", clean(name), err)
	}
	return rows, nil
}

// parsePlatform reads a line.
func parsePlatform(text []byte) (*taskenginev1.PlatformRow, error) {
	if i := invalidUTF8(text); i >= 0 {
		return nil, fmt.Errorf("no platform: it is not UTF-8, from byte %d on", i+1)
	}
	if text[0] != '{' {
		if name, rest, more := strings.Cut(string(text), " "); more {
			return nil, fmt.Errorf(`no platform: something follows the name %.80q: %.80q; values are in an object, such as {"name": "shop-a", "values": {"interval": "5m"}}`, name, rest)
		}
		return &taskenginev1.PlatformRow{Name: string(text)}, nil
	}
	var row platformRow
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&row); err != nil {
		return nil, fmt.Errorf("no platform: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("no platform: something follows the JSON object")
	}
	if row.Name == "" {
		return nil, errors.New("no platform: the name is missing")
	}
	m := &taskenginev1.PlatformRow{Name: row.Name, Removed: row.Removed, IfVersion: row.Version}
	if row.Values != nil {
		m.Values, m.Replace = make(map[string]string, len(*row.Values)), !row.Removed
		for name, text := range *row.Values {
			m.Values[name] = string(text)
		}
	}
	return m, nil
}

// rowOf returns the line of a platform.
func rowOf(p *taskenginev1.Platform) platformRow {
	values := make(map[string]valueText, len(p.GetOwn()))
	for name, text := range p.GetOwn() {
		values[name] = valueText(text)
	}
	return platformRow{Name: p.GetName(), Values: &values, Version: new(p.GetVersion())}
}
