package manifest

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/validate/policy"
)

// signers makes n key pairs.
func signers(t *testing.T, n int) (private []note.Signer, public []string) {
	t.Helper()
	for range n {
		skey, vkey, err := note.GenerateKey(rand.Reader, "lottery")
		if err != nil {
			t.Fatal(err)
		}
		s, err := note.NewSigner(skey)
		if err != nil {
			t.Fatal(err)
		}
		private, public = append(private, s), append(public, vkey)
	}
	return private, public
}

func TestSignatureCountsUpToTheLastDayOfItsKey(t *testing.T) {
	private, public := signers(t, 2)
	signed, err := note.Sign(&note.Note{Text: header().Text()}, private...)
	if err != nil {
		t.Fatal(err)
	}
	first := public[0] + " until 2031-12-31"
	last := time.Date(2031, 12, 31, 23, 59, 59, 0, time.UTC)
	for _, c := range []struct {
		name    string
		need    int
		ring    []string
		trusted time.Time
		want    error
	}{
		{"no trusted time", 1, []string{first}, time.Time{}, nil},
		{"on its last day", 1, []string{first}, last, nil},
		{"the day after", 1, []string{first}, last.Add(time.Second), ErrKeyExpired},
		{"another key without end", 1, []string{first, public[1]}, last.Add(time.Second), nil},
		{"two signatures wanted, one late", 2, []string{first, public[1]}, last.Add(time.Second), ErrKeyExpired},
		{"two signatures wanted in time", 2, []string{first, public[1]}, last, nil},
		{"two wanted, one given", 2, append([]string{first}, second(t)...), last, ErrSignature},
	} {
		ring, err := NewKeys(c.need, c.ring...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ring.At(c.trusted).verify(signed); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		} else if c.want == ErrKeyExpired && !strings.Contains(err.Error(), "on 2031-12-31") {
			t.Errorf("%s: the last day is not named: %v", c.name, err)
		}
	}
}

func second(t *testing.T) []string {
	_, public := signers(t, 1)
	return public
}

func TestKeyRingRefusesKeysThatAreNone(t *testing.T) {
	_, public := signers(t, 1)
	for _, bad := range [][]string{{public[0] + " until"}, {public[0] + " until 2031-13-01"}, {public[0] + " until tomorrow"}, {public[0] + " x"}, {public[0], public[0] + " until 2031-12-31"}, {""}} {
		if _, err := NewKeys(1, bad...); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestOneKeySignsManifestsAndPoliciesAndNoneIsTakenForTheOther(t *testing.T) {
	private, public := signers(t, 2)
	limits := policy.Policy{Version: "2026-1", ValidFrom: policy.Date{Year: 2026, Month: 1, Day: 1}, Currency: "EUR", ShopLimit: 30000, ClaimDays: 30}
	ring, err := NewKeys(2, public...)
	if err != nil {
		t.Fatal(err)
	}
	open := func(text string) string {
		signed, err := note.Sign(&note.Note{Text: text}, private...)
		if err != nil {
			t.Fatal(err)
		}
		got, by, err := ring.Open(signed)
		if err != nil || len(by) != 2 || !strings.HasPrefix(by[0], "lottery+") || by[0] == by[1] {
			t.Fatalf("signed by %v: %v", by, err)
		}
		if _, _, err := ring.Open(bytes.Replace(signed, []byte("EUR"), []byte("CHF"), 1)); !errors.Is(err, ErrSignature) {
			t.Errorf("another currency under the same signatures: %v", err)
		}
		return got
	}
	if p, err := policy.Parse(open(limits.Text())); err != nil || p != limits {
		t.Errorf("%+v %v", p, err)
	}
	if _, err := ParseHeader(limits.Text()); err == nil {
		t.Error("a policy is taken for a manifest")
	}
	if _, err := policy.Parse(open(header().Text())); err == nil {
		t.Error("a manifest is taken for a policy")
	}
}
