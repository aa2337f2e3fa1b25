// Package configs holds the shipped defaults and the catalogue of games, and
// reads every configuration file strictly: a key that means nothing is an error,
// so that a misspelled limit never silently becomes no limit. Only the programs
// under cmd read it; they hand plain values down. Start at Decode and Games.
package configs

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Decode reads TOML into the struct that into points to. Every unknown key and
// every value of the wrong type is reported, all of them joined, each with
// name:line:column; an unknown key also with the known key nearest to it. Name
// is the file's name for the messages. On an error the content of into is not
// to be used.
func Decode(name string, text []byte, into any) error {
	var syntax map[string]any
	if err := toml.Unmarshal(text, &syntax); err != nil {
		return located(name, err)
	}
	c := &checker{name: name}
	c.parser.Reset(text)
	root := reflect.TypeOf(into)
	here := root
	for c.parser.NextExpression() {
		switch e := c.parser.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			here = c.walk(root, e.Key(), e.Kind == unstable.ArrayTable)
		case unstable.KeyValue:
			c.keyValue(here, e)
		}
	}
	if err := errors.Join(append(c.errs, c.parser.Error())...); err != nil {
		return err
	}
	decoder := toml.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return located(name, err)
	}
	return nil
}

// located words an error of the TOML library with its place and without the
// names of Go types.
func located(name string, err error) error {
	var at *toml.DecodeError
	if !errors.As(err, &at) {
		return fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "toml: "))
	}
	line, column := at.Position()
	message := strings.TrimPrefix(at.Error(), "toml: ")
	typed := func(mark string) bool { return strings.Contains(message, mark) }
	if slices.ContainsFunc([]string{"of type", "stored in", "decode TOML", "struct", "Go "}, typed) {
		message = "the value is out of its range"
		if key := at.Key(); len(key) > 0 {
			message = fmt.Sprintf("%q: %s", strings.Join(key, "."), message)
		}
	}
	return fmt.Errorf("%s:%d:%d: %s", name, line, column, message)
}

// checker compares a document with the type it is meant for. A nil type stands
// for anything: below an error nothing more is reported.
type checker struct {
	name   string
	parser unstable.Parser
	errs   []error
}

func (c *checker) errorf(key *unstable.Node, format string, args ...any) {
	start := c.parser.Shape(key.Raw).Start
	c.errs = append(c.errs, fmt.Errorf("%s:%d:%d: %s", c.name, start.Line, start.Column, fmt.Sprintf(format, args...)))
}

// walk follows the parts of a key from t and returns the type at its end. Array
// says that the key is that of an array of tables.
func (c *checker) walk(t reflect.Type, key unstable.Iterator, array bool) reflect.Type {
	var last *unstable.Node
	for key.Next() {
		last = key.Node()
		if t = element(t); t == nil {
			return nil
		}
		t = c.child(t, last)
	}
	if t == nil || last == nil {
		return nil
	}
	t = plain(t)
	switch {
	case anything(t), array && t.Kind() == reflect.Slice && isTable(element(t)), !array && isTable(t):
		return t
	case array:
		c.errorf(last, "%q: expected %s, found a list of tables", last.Data, expected(t))
	default:
		c.errorf(last, "%q: expected %s, found a table", last.Data, expected(t))
	}
	return nil
}

// element is the type a table header speaks about: the items of a list.
func element(t reflect.Type) reflect.Type {
	if t == nil {
		return nil
	}
	if t = plain(t); t.Kind() == reflect.Slice {
		return plain(t.Elem())
	}
	return t
}

// child is the type of a key in the table type t, nil when there is none.
func (c *checker) child(t reflect.Type, key *unstable.Node) reflect.Type {
	name := string(key.Data)
	switch {
	case anything(t):
		return nil
	case t.Kind() == reflect.Map:
		return t.Elem()
	case !isTable(t):
		c.errorf(key, "%q: expected %s in front of it, found a table", name, expected(t))
		return nil
	}
	known := fields(t)
	if found, ok := known[name]; ok {
		return found
	}
	names := make([]string, 0, len(known))
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	c.errorf(key, "unknown key %q; %s", name, suggestion(name, names))
	return nil
}

// keyValue checks "key = value" in a table of type t.
func (c *checker) keyValue(t reflect.Type, e *unstable.Node) {
	var last *unstable.Node
	for key := e.Key(); key.Next(); {
		last = key.Node()
		if t = element(t); t == nil {
			return
		}
		t = c.child(t, last)
	}
	if t != nil && last != nil {
		c.value(t, last, e.Value())
	}
}

// value checks a value against t; key is where a complaint points to.
func (c *checker) value(t reflect.Type, key, value *unstable.Node) {
	t = plain(t)
	if anything(t) {
		return
	}
	ok := false
	switch value.Kind {
	case unstable.String:
		ok = t.Kind() == reflect.String || isText(t)
	case unstable.Bool:
		ok = t.Kind() == reflect.Bool
	case unstable.Integer:
		ok = !isText(t) && (isInteger(t) || t.Kind() == reflect.Float64 || t.Kind() == reflect.Float32)
	case unstable.Float:
		ok = t.Kind() == reflect.Float64 || t.Kind() == reflect.Float32
	case unstable.Array:
		if ok = t.Kind() == reflect.Slice || t.Kind() == reflect.Array; ok {
			for items := value.Children(); items.Next(); {
				c.value(t.Elem(), key, items.Node())
			}
		}
	case unstable.InlineTable:
		if ok = isTable(t); ok {
			for items := value.Children(); items.Next(); {
				c.keyValue(t, items.Node())
			}
		}
	case unstable.LocalDate, unstable.LocalTime, unstable.LocalDateTime, unstable.DateTime:
		ok = isDate(t)
	case unstable.Comment:
		ok = true
	}
	if !ok {
		c.errorf(key, "%q: expected %s, found %s", key.Data, expected(t), found(value.Kind))
	}
}

func plain(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

func anything(t reflect.Type) bool { return t.Kind() == reflect.Interface }

func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func isDate(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[time.Time](), reflect.TypeFor[toml.LocalDate](), reflect.TypeFor[toml.LocalTime](), reflect.TypeFor[toml.LocalDateTime]():
		return true
	}
	return false
}

func isTable(t reflect.Type) bool {
	return t.Kind() == reflect.Map || t.Kind() == reflect.Struct && !isText(t) && !isDate(t)
}

func isInteger(t reflect.Type) bool {
	return t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64
}

// expected and found name kinds of values in the words of the file's reader.
func expected(t reflect.Type) string {
	switch {
	case isDate(t):
		return "a date"
	case isText(t), t.Kind() == reflect.String:
		return "a text in quotes"
	case isInteger(t):
		return "a whole number"
	case t.Kind() == reflect.Float64, t.Kind() == reflect.Float32:
		return "a number"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		return "a list"
	}
	return "a table"
}

func found(kind unstable.Kind) string {
	switch kind {
	case unstable.String:
		return "a text"
	case unstable.Bool:
		return "true or false"
	case unstable.Integer:
		return "a whole number"
	case unstable.Float:
		return "a number with decimals"
	case unstable.Array:
		return "a list"
	case unstable.InlineTable:
		return "a table"
	}
	return "a date or time"
}

// fields are the keys of a struct: its toml tags, else its field names.
func fields(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
		switch {
		case tag == "-":
		case f.Anonymous && tag == "" && plain(f.Type).Kind() == reflect.Struct:
			for name, inner := range fields(plain(f.Type)) {
				if _, taken := out[name]; !taken {
					out[name] = inner
				}
			}
		case !f.IsExported():
		case tag != "":
			out[tag] = f.Type
		default:
			out[f.Name] = f.Type
		}
	}
	return out
}

// suggestion names the nearest known key, or all of them when none is near.
func suggestion(name string, known []string) string {
	if len(known) == 0 {
		return "no key is known here"
	}
	best, distance := "", len(name)/2+2
	for _, candidate := range known {
		if d := edits(name, candidate); d < distance {
			best, distance = candidate, d
		}
	}
	if best == "" {
		return "known here: " + strings.Join(known, ", ")
	}
	return fmt.Sprintf("did you mean %q?", best)
}

// edits counts the insertions, deletions and changes between two keys.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		last := row
		row = make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, last[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
