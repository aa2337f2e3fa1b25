package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func sealedIdentity() SealedIdentity {
	return SealedIdentity{Record: strings.Repeat("0a", 16), Claims: []string{strings.Repeat("1b", 16)}, Sealed: make([]byte, 1024+48)}
}

func TestSealedIdentityIsCheckedStrictly(t *testing.T) {
	if err := sealedIdentity().Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*SealedIdentity){
		"no id":           func(s *SealedIdentity) { s.Record = "" },
		"a short id":      func(s *SealedIdentity) { s.Record = s.Record[2:] },
		"capitals":        func(s *SealedIdentity) { s.Record = strings.ToUpper(s.Record) },
		"nothing sealed":  func(s *SealedIdentity) { s.Sealed = nil },
		"overhead alone":  func(s *SealedIdentity) { s.Sealed = make([]byte, 48) },
		"a byte more":     func(s *SealedIdentity) { s.Sealed = append(s.Sealed, 0) },
		"too much":        func(s *SealedIdentity) { s.Sealed = make([]byte, 32*1024+48) },
		"no payment":      func(s *SealedIdentity) { s.Claims = nil },
		"a payment twice": func(s *SealedIdentity) { s.Claims = append(s.Claims, s.Claims[0]) },
		"no payment's id": func(s *SealedIdentity) { s.Claims[0] = "x" },
		"too many of them": func(s *SealedIdentity) {
			for n := range 100 {
				s.Claims = append(s.Claims, fmt.Sprintf("%032x", n))
			}
		},
	} {
		s := sealedIdentity()
		spoil(&s)
		if err := s.Check(); !errors.Is(err, ErrIdentity) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzSealedIdentity: what passes the check comes back the same.
func FuzzSealedIdentity(f *testing.F) {
	seed, err := json.Marshal(sealedIdentity())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(`{"record":null,"claims":[null],"sealed":""}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s, again SealedIdentity
		if json.Unmarshal(text, &s) != nil || s.Check() != nil {
			return
		}
		out, err := json.Marshal(s)
		if err == nil {
			err = json.Unmarshal(out, &again)
		}
		if err != nil || again.Record != s.Record || !bytes.Equal(again.Sealed, s.Sealed) || strings.Join(again.Claims, " ") != strings.Join(s.Claims, " ") {
			t.Fatalf("%+v %v", again, err)
		}
	})
}
