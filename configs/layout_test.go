package configs

import (
	"strings"
	"testing"

	"grattoir/validate/ticket"
)

const layoutText = `name = "xy26"
check = "mod97-10"
symbologies = "IC"

[[field]]
kind = "fixed"
value = "7"
[[field]]
kind = "game"
digits = 4
[[field]]
kind = "pack"
digits = 6
[[field]]
kind = "ticket"
digits = 3
[[field]]
kind = "secret"
digits = 10
[[field]]
kind = "check"
digits = 2
`

func TestLayoutFromAFileReadsCodes(t *testing.T) {
	l, err := DecodeLayout("xy26.toml", []byte(layoutText))
	if err != nil || l.String() != "xy26 fixed=7 game:4 pack:6 ticket:3 secret:10 check:2 check=mod97-10 aim=IC" {
		t.Fatalf("%v %v", l, err)
	}
	c, err := ticket.Make(l, "399", 123, 17, "1234567890")
	if err != nil {
		t.Fatal(err)
	}
	if back, err := ticket.Parse(c.Digits(), 'I', []ticket.Layout{l}); err != nil || back.Secret() != "1234567890" {
		t.Fatal(back, err)
	}
}

func TestLayoutFileNamesItsFault(t *testing.T) {
	for _, tc := range []struct{ change, to, says string }{
		{`kind = "secret"`, `kind = "secrets"`, `unknown field "secrets"`},
		{`digits = 10`, `digit = 10`, ":19:1:"},
		{`digits = 10`, `digits = 0`, `"secret:0"`},
		{`digits = 10`, `digits = "10"`, ":19:1:"},
		{`value = "7"`, "value = \"7\"\ndigits = 1", "field 1 of 6"},
		{"kind = \"game\"", "kind = \"game\"\nvalue = \"1\"", "field 2 of 6"},
		{`name = "xy26"`, `name = "g40"`, "belongs to a layout that is shipped"},
		{`name = "xy26"`, `name = "xy 26"`, "no blanks"},
		{`check = "mod97-10"`, `check = "luhn"`, `"luhn"`},
		{`symbologies = "IC"`, `symbologies = "X"`, "'X'"},
		{`symbologies = "IC"`, `typed = true`, "typed secret is the last field"},
	} {
		text := strings.Replace(layoutText, tc.change, tc.to, 1)
		_, err := DecodeLayout("xy26.toml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), "xy26.toml") {
			t.Errorf("%s: %v", tc.to, err)
		}
	}
}
