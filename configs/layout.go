package configs

import (
	"fmt"
	"strings"

	"grattoir/validate/ticket"
)

// layoutFile is a layout of printed codes as a person writes it.
type layoutFile struct {
	Name        string        `toml:"name"`        // 1 to 16 of a-z and 0-9
	Fields      []layoutField `toml:"field"`       // in printed order
	Check       string        `toml:"check"`       // none (default) or mod97-10
	Symbologies string        `toml:"symbologies"` // AIM letters, "" for any
	Typed       bool          `toml:"typed"`       // the secret is typed after the scan
}

type layoutField struct {
	Kind   string `toml:"kind"`   // fixed, game, pack, ticket, secret or check
	Digits int    `toml:"digits"` // how many; not for fixed
	Value  string `toml:"value"`  // the digits of a fixed field
}

// DecodeLayout reads a layout of printed codes. The errors name file, line and column,
// or the field.
func DecodeLayout(name string, text []byte) (ticket.Layout, error) {
	f := layoutFile{Check: ticket.CheckNone}
	if err := Decode(name, text, &f); err != nil {
		return ticket.Layout{}, err
	}
	words := []string{f.Name}
	for n, field := range f.Fields {
		fixed := field.Kind == string(ticket.Fixed)
		switch {
		case fixed && (field.Value == "" || field.Digits != 0):
			return ticket.Layout{}, fmt.Errorf("%s: field %d of %d: a fixed field has value = \"its digits\" and nothing else", name, n+1, len(f.Fields))
		case fixed:
			words = append(words, "fixed="+field.Value)
		case field.Value != "":
			return ticket.Layout{}, fmt.Errorf("%s: field %d of %d: only a fixed field has a value", name, n+1, len(f.Fields))
		default:
			words = append(words, fmt.Sprintf("%s:%d", field.Kind, field.Digits))
		}
	}
	words = append(words, "check="+f.Check)
	if f.Symbologies != "" {
		words = append(words, "aim="+f.Symbologies)
	}
	if f.Typed {
		words = append(words, "entry=typed")
	}
	for _, w := range words {
		if strings.ContainsAny(w, " \n") {
			return ticket.Layout{}, fmt.Errorf("%s: %.40q: no blanks in names and values", name, w)
		}
	}
	l, err := ticket.ParseLayout(strings.Join(words, " "))
	if err != nil {
		return l, fmt.Errorf("%s: %w", name, err)
	}
	for _, shipped := range ticket.Shipped() {
		if shipped.Name == l.Name && !shipped.Equal(l) {
			return l, fmt.Errorf("%s: name %q belongs to a layout that is shipped: give this one another", name, l.Name)
		}
	}
	return l, nil
}
