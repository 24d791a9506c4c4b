package calendar

import (
	"fmt"
	"unicode/utf8"
)

// ExpressionError describes a mistake in a cron expression, its place, and the correction.
type ExpressionError struct {
	Expression string
	Offset     int    // of the part that is wrong, in bytes from the start of the expression
	Part       string // the part that is wrong
	Field      string // such as "hour"; empty if it is not about one field
	Problem    string // such as "want 0 to 23"
}

// Error returns one line, such as `hour "25" at character 3: want 0 to 23`. Characters are counted
// from 1.
func (e *ExpressionError) Error() string {
	field := e.Field
	if field != "" {
		field += " "
	}
	const longest = 60
	return fmt.Sprintf("%s%.*q at character %d: %s", field, longest, e.Part, utf8.RuneCountInString(e.Expression[:e.Offset])+1, e.Problem)
}
