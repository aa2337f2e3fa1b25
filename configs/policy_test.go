package configs

import (
	"strings"
	"testing"

	"grattoir/validate/policy"
)

func TestShippedPolicyLoadsAndCanBeSigned(t *testing.T) {
	p, err := DecodePolicy("policy.toml", PolicyExample)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := policy.Parse(p.Text()); err != nil || got != p {
		t.Errorf("%+v %v", got, err)
	}
	if p.BookedRisk <= 0 || p.BookedRisk > 5000 || p.BookedRiskParty == "" {
		t.Errorf("booked risk %d, borne by %q: the example has a small one, and names who bears it", p.BookedRisk, p.BookedRiskParty)
	}
	c, err := ParseTerminal("terminald.toml", TerminalExample)
	if err != nil {
		t.Fatal(err)
	}
	same := c.Limits()
	same.Version, same.ValidFrom, same.AllowanceClaims, same.AllowanceMoney, same.BookedRisk, same.BookedRiskParty =
		p.Version, p.ValidFrom, p.AllowanceClaims, p.AllowanceMoney, p.BookedRisk, p.BookedRiskParty
	if same != p {
		t.Errorf("the two examples differ:\n%+v\n%+v", same, p)
	}
}

// TestForgottenLimitIsNoLimitNowhere takes each line out, and each key's last letter.
func TestForgottenLimitIsNoLimitNowhere(t *testing.T) {
	keys := 0
	for line := range strings.Lines(string(PolicyExample)) {
		key, _, ok := strings.Cut(line, " = ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		keys++
		without := strings.Replace(string(PolicyExample), line, "", 1)
		if _, err := DecodePolicy("p.toml", []byte(without)); err == nil || !strings.Contains(err.Error(), "p.toml: "+key+" is missing") {
			t.Errorf("without %s: %v", key, err)
		}
		misspelled := strings.Replace(string(PolicyExample), key+" = ", key+"x = ", 1)
		if _, err := DecodePolicy("p.toml", []byte(misspelled)); err == nil || !strings.Contains(err.Error(), `did you mean "`+key+`"?`) {
			t.Errorf("%sx: %v", key, err)
		}
	}
	if keys != 15 {
		t.Errorf("%d keys in the example", keys)
	}
}

func TestPolicyFileNamesItsFaults(t *testing.T) {
	for edit, want := range map[string]string{
		`valid_from = "2026-12-01"|valid_from = "1.12.2026"`:   "valid_from: date",
		`valid_to = ""|valid_to = "2026-02-30"`:                "valid_to: date",
		`valid_to = ""|valid_to = "2026-11-30"`:                "valid_to = 2026-11-30",
		`shop_limit_minor = 30000|shop_limit_minor = 0`:        "shop_limit_minor = 0",
		`version = "2026-1"|version = "none"`:                  `version = "none"`,
		`booked_risk_party = "lottery"|booked_risk_party = ""`: `booked_risk_party = ""`,
		`claim_days = 30|claim_days = "30"`:                    "p.toml:8:1",
	} {
		before, after, _ := strings.Cut(edit, "|")
		if _, err := DecodePolicy("p.toml", []byte(strings.Replace(string(PolicyExample), before, after, 1))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", after, err)
		}
	}
}
