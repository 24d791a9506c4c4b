package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxCondition is how many bytes a condition may have.
const MaxCondition = 4096

// condition is a condition that was read: an operand, a comparison of two operands, or conditions joined by and, or, not.
type condition struct {
	op     string // "" for an operand, == != < <= > >= for a comparison, and, or, not
	args   []*condition
	of     operand // if op is ""
	column int     // of op, from 1 on
}

// operand is a reference or a literal value.
type operand struct {
	text string // as it is written
	kind string // $input, $result or $step; "" for a literal
	name string // of a step
	path string
	is   any // of a literal: nil, bool, string or json.Number
}

// conditionError is a mistake in a condition.
type conditionError struct {
	column int
	text   string
}

func (e *conditionError) Error() string { return fmt.Sprintf("column %d: %s", e.column, e.text) }

func wrongAt(column int, format string, args ...any) error {
	return &conditionError{column, fmt.Sprintf(format, args...)}
}

// token is a part of a condition: a word, a text in quotes, or an operator.
type token struct {
	text   string // of a word or an operator
	quoted *string
	column int
}

// operators are the operators that are no words, with those of other languages that people write in their place.
var operators = []string{"==", "!=", "<=", ">=", "&&", "||", "<", ">", "(", ")", "=", "!", "&", "|"}

// tokens splits a condition.
func tokens(text string) (all []token, err error) {
	column := 1
	skip := func(n int) {
		column += utf8.RuneCountInString(text[:n])
		text = text[n:]
	}
	for {
		skip(len(text) - len(strings.TrimLeftFunc(text, unicode.IsSpace)))
		if text == "" {
			return all, nil
		}
		if quote := text[0]; quote == '"' || quote == '\'' {
			end := strings.IndexByte(text[1:], quote)
			if end < 0 {
				return nil, wrongAt(column, "the text does not end: %c is missing", quote)
			}
			inner := text[1 : 1+end]
			all = append(all, token{quoted: &inner, text: text[:end+2], column: column})
			skip(end + 2)
			continue
		}
		n := slices.IndexFunc(operators, func(op string) bool { return strings.HasPrefix(text, op) })
		end := 0
		if n >= 0 {
			end = len(operators[n])
		} else if end = strings.IndexFunc(text, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`()=!<>&|"'`, r) }); end < 0 {
			end = len(text)
		}
		all = append(all, token{text: text[:end], column: column})
		skip(end)
	}
}

// parseCondition reads a condition.
func parseCondition(text string) (*condition, error) {
	switch {
	case len(text) > MaxCondition:
		return nil, fmt.Errorf("the condition has %d bytes, of %d allowed", len(text), MaxCondition)
	case !utf8.ValidString(text):
		return nil, errors.New("the condition is not UTF-8 text")
	}
	all, err := tokens(text)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("the condition is empty")
	}
	p := &conditionParser{rest: all, end: utf8.RuneCountInString(text) + 1}
	c, err := p.either()
	if err != nil {
		return nil, err
	}
	if t, more := p.peek(); more {
		return nil, p.unexpected(t)
	}
	return c, nil
}

type conditionParser struct {
	rest  []token
	end   int // the column after the text
	depth int
}

func (p *conditionParser) peek() (t token, ok bool) {
	if len(p.rest) == 0 {
		return token{column: p.end}, false
	}
	return p.rest[0], true
}

// accept takes the next token if it is one of these words or operators.
func (p *conditionParser) accept(words ...string) (token, bool) {
	t, ok := p.peek()
	if !ok || t.quoted != nil || !slices.Contains(words, t.text) {
		return t, false
	}
	p.rest = p.rest[1:]
	return t, true
}

// unexpected describes a token that cannot be where it is.
func (p *conditionParser) unexpected(t token) error {
	advice := map[string]string{"&&": "and", "&": "and", "||": "or", "|": "or", "!": "not", "=": "=="}[t.text]
	switch {
	case t.text == "":
		return wrongAt(t.column, "a value is missing at the end")
	case advice != "":
		return wrongAt(t.column, "write %s in place of %s", advice, t.text)
	case slices.Contains(comparisons, t.text):
		return wrongAt(t.column, "%s has no value before it, or follows a comparison: compare two values, and join comparisons by and", t.text)
	}
	return wrongAt(t.column, "%.40s cannot be here: conditions are joined by and, or", t.text)
}

var comparisons = []string{"==", "!=", "<", "<=", ">", ">="}

// either reads conditions joined by or.
func (p *conditionParser) either() (*condition, error) { return p.joined("or", p.both) }

// both reads conditions joined by and.
func (p *conditionParser) both() (*condition, error) { return p.joined("and", p.one) }

func (p *conditionParser) joined(word string, part func() (*condition, error)) (*condition, error) {
	c, err := part()
	if err != nil {
		return nil, err
	}
	for {
		t, ok := p.accept(word)
		if !ok {
			return c, nil
		}
		next, err := part()
		if err != nil {
			return nil, err
		}
		if c.op == word {
			c.args = append(c.args, next)
			continue
		}
		c = &condition{op: word, args: []*condition{c, next}, column: t.column}
	}
}

// one reads a condition that is not joined: one in parentheses or after not, a comparison, or an operand that is true or false.
func (p *conditionParser) one() (*condition, error) {
	t, _ := p.peek()
	if p.depth++; p.depth > MaxDepth {
		return nil, wrongAt(t.column, "more than %d conditions are within each other", MaxDepth)
	}
	defer func() { p.depth-- }()
	if _, ok := p.accept("not"); ok {
		c, err := p.one()
		if err != nil {
			return nil, err
		}
		return &condition{op: "not", args: []*condition{c}, column: t.column}, nil
	}
	if _, ok := p.accept("("); ok {
		c, err := p.either()
		if err != nil {
			return nil, err
		}
		if end, ok := p.accept(")"); !ok {
			if end.text != "" {
				return nil, p.unexpected(end)
			}
			return nil, wrongAt(end.column, ") is missing: the ( of column %d is open", t.column)
		}
		return c, nil
	}
	left, err := p.operand()
	if err != nil {
		return nil, err
	}
	op, ok := p.accept(comparisons...)
	if !ok {
		if _, isBool := left.of.is.(bool); left.of.kind == "" && !isBool {
			return nil, wrongAt(left.column, "%.40s is no condition: compare it with a reference", left.of.text)
		}
		return left, nil
	}
	right, err := p.operand()
	if err != nil {
		return nil, err
	}
	return &condition{op: op.text, args: []*condition{left, right}, column: op.column}, checkCompared(op, left, right)
}

// checkCompared refuses a comparison that can never be made.
func checkCompared(op token, left, right *condition) error {
	for i, c := range []*condition{left, right} {
		other := []*condition{right, left}[i]
		if c.of.kind == "" && op.text != "==" && op.text != "!=" && !isOrdered(c.of.is) {
			return wrongAt(c.column, "%s compares numbers or texts, and %s is none", op.text, c.of.text)
		}
		if word, isText := other.of.is.(string); c.of.kind == refStep && c.of.path == "state" && other.of.kind == "" && (!isText || !slices.Contains(seenStates, word)) {
			return wrongAt(other.column, "the state of a step that has ended is one of %s, and not %.40s%s", strings.Join(seenStates, ", "), other.of.text, nearest(word, seenStates))
		}
	}
	return nil
}

// seenStates are the states of steps that others may look at.
var seenStates = []string{string(Done), string(Failed), string(Skipped)}

func isOrdered(v any) bool {
	switch v.(type) {
	case string, json.Number:
		return true
	}
	return false
}

// operand reads a reference or a literal.
func (p *conditionParser) operand() (*condition, error) {
	t, ok := p.peek()
	if !ok {
		return nil, p.unexpected(t)
	}
	c := &condition{column: t.column, of: operand{text: t.text}}
	switch {
	case t.quoted != nil:
		c.of.is = *t.quoted
	case slices.Contains(operators, t.text), slices.Contains([]string{"and", "or", "not"}, t.text):
		return nil, p.unexpected(t)
	case t.text == "true", t.text == "false":
		c.of.is = t.text == "true"
	case t.text == "null":
	case strings.HasPrefix(t.text, "$"):
		if err := c.of.refer(t); err != nil {
			return nil, err
		}
	case json.Valid([]byte(t.text)) && (t.text[0] == '-' || t.text[0] >= '0' && t.text[0] <= '9'):
		if _, err := numberOf(json.Number(t.text)); err != nil {
			return nil, wrongAt(t.column, "%.40s is too large", t.text)
		}
		c.of.is = json.Number(t.text)
	default:
		advice := "a text is in quotes, and a reference begins with $"
		if word, _, _ := strings.Cut(t.text, "."); slices.Contains(conditionRefs, "$"+word) {
			advice = fmt.Sprintf("did you mean $%s?", t.text)
		}
		return nil, wrongAt(t.column, "%.40s is no value: %s", t.text, advice)
	}
	p.rest = p.rest[1:]
	return c, nil
}

// conditionRefs are the references that a condition may have, stepFacts the parts of $step.
var (
	conditionRefs = []string{refInput, refResult, refStep}
	stepFacts     = []string{"state", "error", "count", "done", "failed", "cancelled"}
)

// refer makes o the reference that is written as t, such as $result.charge.id.
func (o *operand) refer(t token) error {
	kind, rest, _ := strings.Cut(t.text, ".")
	if !slices.Contains(conditionRefs, kind) {
		advice := nearest(kind, conditionRefs)
		if advice == "" {
			advice = "; there are $input, $result and $step, such as $result.charge.id"
		}
		return wrongAt(t.column, "a condition has no reference %.40s%s", kind, advice)
	}
	if o.kind = kind; kind == refInput {
		o.path = rest
		return nil
	}
	o.name, o.path, _ = strings.Cut(rest, ".")
	if kind == refStep && !slices.Contains(stepFacts, o.path) {
		return wrongAt(t.column, "%.80s: $step has %s of a step, such as $step.charge.state%s", t.text, strings.Join(stepFacts, ", "), nearest(o.path, stepFacts))
	}
	return nil
}
