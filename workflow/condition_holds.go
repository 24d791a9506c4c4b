package workflow

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// check checks the references in c, and adds to reads the steps with results that it needs.
func (c *condition) check(sees scope, reads map[string]bool) error {
	for _, arg := range c.args {
		if err := arg.check(sees, reads); err != nil {
			return err
		}
	}
	if c.of.name == "" && c.of.kind != refResult && c.of.kind != refStep {
		return nil
	}
	if err := checkStep(c.of.kind, c.of.name, sees); err != nil {
		return wrongAt(c.column, "%v", err)
	}
	if c.of.kind == refResult {
		reads[c.of.name] = true
	}
	return nil
}

// holds reports whether c is true. It looks at the conditions from the left to the right, and not at those that do not
// matter any more.
func (c *condition) holds(find lookup) (bool, error) {
	switch c.op {
	case "and", "or":
		for _, arg := range c.args {
			if is, err := arg.holds(find); err != nil || is == (c.op == "or") {
				return is, err
			}
		}
		return c.op == "and", nil
	case "not":
		is, err := c.args[0].holds(find)
		return !is, err
	case "":
		v, err := c.of.value(find)
		if err != nil {
			return false, wrongAt(c.column, "%v", err)
		}
		is, isBool := v.(bool)
		if !isBool && v != nil {
			return false, wrongAt(c.column, "%.80s is %s, and neither true nor false: compare it", c.of.text, shown(v))
		}
		return is, nil
	}
	return c.compare(find)
}

// compare compares the values of two operands.
func (c *condition) compare(find lookup) (bool, error) {
	var v [2]any
	for i, arg := range c.args {
		var err error
		if v[i], err = arg.of.value(find); err != nil {
			return false, wrongAt(arg.column, "%v", err)
		}
		if c.op != "==" && c.op != "!=" && !isOrdered(v[i]) {
			return false, wrongAt(arg.column, "%.80s is %s, and %s compares numbers or texts", arg.of.text, shown(v[i]), c.op)
		}
	}
	order, comparable, err := ordered(v[0], v[1])
	switch {
	case err != nil:
		return false, wrongAt(c.column, "%v", err)
	case c.op == "==":
		return comparable && order == 0, nil
	case c.op == "!=":
		return !comparable || order != 0, nil
	case !comparable:
		return false, wrongAt(c.column, "%s compares %s with %s: compare two numbers or two texts", c.op, shown(v[0]), shown(v[1]))
	}
	return c.op[0] == '<' && order < 0 || c.op[0] == '>' && order > 0 || len(c.op) == 2 && order == 0, nil
}

// ordered compares two values. They are comparable if they are of the same kind.
func ordered(a, b any) (order int, comparable bool, err error) {
	switch a := a.(type) {
	case nil:
		return 0, b == nil, nil
	case bool:
		b, ok := b.(bool)
		if a != b {
			order = 1
		}
		return order, ok, nil
	case string:
		b, ok := b.(string)
		return strings.Compare(a, b), ok, nil
	case json.Number:
		number, ok := b.(json.Number)
		if !ok {
			return 0, false, nil
		}
		x, err := numberOf(a)
		if err != nil {
			return 0, false, err
		}
		y, err := numberOf(number)
		if err != nil {
			return 0, false, err
		}
		return x.Cmp(y), true, nil
	}
	if b == nil {
		return 0, false, nil
	}
	return 0, false, fmt.Errorf("%s cannot be compared, but with null", shown(a))
}

// numberBits is the precision of numbers: that of 150 digits.
const numberBits = 512

func numberOf(n json.Number) (*big.Float, error) {
	f, _, err := big.ParseFloat(string(n), 10, numberBits, big.ToNearestEven)
	if err != nil || f.IsInf() {
		return nil, fmt.Errorf("the number %.40s is too large", n)
	}
	return f, nil
}

// value returns the value of an operand. A part that there is not is null.
func (o *operand) value(find lookup) (any, error) {
	if o.kind == "" {
		return o.is, nil
	}
	v, err := find(o.kind, o.name)
	if err != nil {
		return nil, err
	}
	for path := o.path; path != ""; {
		var name string
		name, path, _ = strings.Cut(path, ".")
		if v, err = partOf(v, name); err != nil {
			return nil, nil
		}
	}
	switch is := v.(type) {
	case uint32:
		return json.Number(strconv.FormatUint(uint64(is), 10)), nil
	case absent:
		return nil, nil
	}
	return v, nil
}

// shown describes a value.
func shown(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	case string:
		return fmt.Sprintf("the text %.40q", v)
	case json.Number:
		return fmt.Sprintf("the number %.40s", v)
	}
	return fmt.Sprint(v)
}
