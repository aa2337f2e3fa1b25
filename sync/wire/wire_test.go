package wire

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"grattoir/validate/policy"
)

const someHash = "58419acf6aed48966374ff1f9530890079768586a6ff1c600afd5123885703a8"

var at = time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC)

// The vectors are the contract: what these texts say is what was signed in the field,
// and every later version must write and read them as they stand here.
const (
	headVector = "grattoir head v1\nterminal shop-0042\nepoch 1\nseq 17\nhash " + someHash + "\n"
	ackVector  = "grattoir ack v1\nterminal shop-0042\nepoch 1\nseq 17\nhash " + someHash +
		"\ntime 2026-11-30T12:00:00.123Z\nallowance 50 100000\n"
	snapshotVector = "grattoir snapshot v1\nversion 3\nissued 2026-11-30T12:00:00.123Z\nblocks 2\n" +
		"block " + someHash + " 761856 00399 1 1 150000 2026-03-02 - - bzh,idf\nblock " + someHash + " 75000000 97180 2 150001 300000 2026-11-30 2026-12-01 2027-03-01 -\n"
)

// snapshotVector2 names the descriptor of its second block.
const (
	otherHash       = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	snapshotVector2 = "grattoir snapshot v2\nversion 3\nissued 2026-11-30T12:00:00.123Z\nblocks 2\n" +
		"block " + someHash + " 761856 00399 1 1 150000 2026-03-02 - - bzh,idf -\nblock " + someHash + " 75000000 97180 2 150001 300000 2026-11-30 2026-12-01 2027-03-01 - " + otherHash + "\n"
)

func position() Position { return Position{Epoch: 1, Seq: 17, Hash: someHash} }

func TestSignedTextsOfVersion1(t *testing.T) {
	if got := HeadText("shop-0042", position()); got != headVector {
		t.Errorf("head:\n%s", got)
	}
	a := Ack{Terminal: "shop-0042", Position: position(), Time: at, AllowanceClaims: 50, AllowanceMinor: 100000}
	if got := a.Text(); got != ackVector {
		t.Errorf("ack:\n%s", got)
	}
	a.Time = at.Truncate(time.Millisecond)
	if got, err := ParseAck(ackVector); err != nil || got != a {
		t.Errorf("ack reads as %+v: %v", got, err)
	}
	s := Snapshot{Version: 3, Issued: at, Blocks: []Block{
		{someHash, 761856, "00399", 1, 1, 150000, policy.Date{Year: 2026, Month: 3, Day: 2}, policy.Date{}, policy.Date{}, []string{"bzh", "idf"}, ""},
		{someHash, 75000000, "97180", 2, 150001, 300000, policy.Date{Year: 2026, Month: 11, Day: 30}, policy.Date{Year: 2026, Month: 12, Day: 1}, policy.Date{Year: 2027, Month: 3, Day: 1}, nil, ""}}}
	if got := s.Text(); got != snapshotVector {
		t.Errorf("snapshot:\n%s", got)
	}
	if got, err := ParseSnapshot(snapshotVector); err != nil || got.Version != 3 || !reflect.DeepEqual(got.Blocks, s.Blocks) {
		t.Errorf("snapshot reads as %+v: %v", got, err)
	}
	s.Blocks[1].Pieces = otherHash
	if got := s.Text(); got != snapshotVector2 {
		t.Errorf("snapshot with descriptors:\n%s", got)
	}
	if got, err := ParseSnapshot(snapshotVector2); err != nil || !reflect.DeepEqual(got.Blocks, s.Blocks) || got.WithoutPieces().Text() != snapshotVector {
		t.Errorf("snapshot with descriptors reads as %+v: %v", got, err)
	}
}

func TestSignedTextsHaveOneForm(t *testing.T) {
	for name, change := range map[string][2]string{
		"a leading zero": {"seq 17", "seq 017"},
		"a sign":         {"seq 17", "seq +17"},
		"two blanks":     {"epoch 1", "epoch  1"},
		"carriage":       {"\nseq", "\r\nseq"},
		"seconds only":   {"12:00:00.123Z", "12:00:00Z"},
		"another zone":   {"12:00:00.123Z", "12:00:00.123+00:00"},
		"a tail":         {"100000\n", "100000\nmore\n"},
		"no end":         {"100000\n", "100000"},
		"another kind":   {"ack v1", "ack v2"},
	} {
		text := strings.Replace(ackVector, change[0], change[1], 1)
		if _, err := ParseAck(text); text == ackVector || !errors.Is(err, ErrText) {
			t.Errorf("ack with %s: %v", name, err)
		}
	}
	for name, change := range map[string][2]string{
		"version 0":        {"version 3", "version 0"},
		"a block too many": {"blocks 2", "blocks 1"},
		"a block too few":  {"blocks 2", "blocks 3"},
		"a negative count": {"blocks 2", "blocks -2"},
		"a tail":           {"03-01 -\n", "03-01 -\n\n"},
		"no end":           {"03-01 -\n", "03-01 -"},
		"regions unsorted": {"bzh,idf", "idf,bzh"},
		"a region twice":   {"bzh,idf", "bzh,bzh"},
		"an empty region":  {"bzh,idf", "bzh,"},
		"another alphabet": {"bzh,idf", "BZH,idf"},
		"no such day":      {"2027-03-01", "2027-02-29"},
		"no day at all":    {"2026-03-02", "-"},
		"packs backwards":  {"150001 300000", "300000 150001"},
		"a short line":     {" 2026-03-02 - - bzh,idf", ""},
	} {
		text := strings.Replace(snapshotVector, change[0], change[1], 1)
		if _, err := ParseSnapshot(text); text == snapshotVector || !errors.Is(err, ErrText) {
			t.Errorf("snapshot with %s: %v", name, err)
		}
	}
	for name, change := range map[string][2]string{
		"version 1 with descriptors": {"snapshot v2", "snapshot v1"},
		"a later version":            {"snapshot v2", "snapshot v3"},
		"version 2 without any":      {otherHash, "-"},
		"capitals":                   {"e3b0", "E3B0"},
		"a short descriptor":         {"b855\n", "\n"},
		"none where one belongs":     {"- " + otherHash, "-"},
	} {
		text := strings.Replace(snapshotVector2, change[0], change[1], 1)
		if _, err := ParseSnapshot(text); text == snapshotVector2 || !errors.Is(err, ErrText) {
			t.Errorf("snapshot of version 2 with %s: %v", name, err)
		}
	}
}

func TestRegionsHaveShortPlainNames(t *testing.T) {
	for r, want := range map[string]bool{"bzh": true, "fr-22": true, "a": true, "abcdefghijklmnop": true, "": false, "-": false, "-a": false, "a-": false,
		"Bzh": false, "a,b": false, "a b": false, "é": false, "abcdefghijklmnopq": false} {
		if ValidRegion(r) != want {
			t.Errorf("%q: %v", r, !want)
		}
	}
}

func TestEnrolCodeReadsAsItWasTyped(t *testing.T) {
	secret, pin := EnrolSecret{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, CAPin{0xff, 0xfe, 0xfd, 0xfc, 0xfb, 0xfa, 0xf9, 0xf8, 0xf7, 0xf6}
	const vector = "AAAQ-EAYE-AUDA-OCAJ-777P-37H3-7L47-R57W" // base32 of the 20 bytes, by coreutils
	if got := EncodeEnrolCode(secret, pin); got != vector {
		t.Fatal(got)
	}
	for _, typed := range []string{vector, strings.ToLower(vector), strings.ReplaceAll(vector, "-", ""), " " + strings.ReplaceAll(vector, "-", " ") + "\n"} {
		if s, p, err := ParseEnrolCode(typed); err != nil || s != secret || p != pin {
			t.Errorf("%q: %v", typed, err)
		}
	}
	for _, wrong := range []string{"", "AAAQ", vector + "A", strings.Replace(vector, "A", "1", 1), strings.Replace(vector, "A", "é", 1), strings.Repeat("-", 100) + vector} {
		_, _, err := ParseEnrolCode(wrong)
		if !errors.Is(err, ErrEnrolCode) || strings.Contains(err.Error(), "EAYE") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func TestEnrolCodeRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(rapid.Byte(), EnrolCodeBytes, EnrolCodeBytes).Draw(t, "code")
		secret, pin := EnrolSecret(raw[:10]), CAPin(raw[10:])
		s, p, err := ParseEnrolCode(EncodeEnrolCode(secret, pin))
		if err != nil || s != secret || p != pin {
			t.Fatalf("%v", err)
		}
	})
}

func TestRangesOfPacks(t *testing.T) {
	for text, want := range map[string][2]uint32{"7": {7, 7}, "120-179": {120, 179}, "0-4294967295": {0, 4294967295}} {
		if a, b, err := ParseRange(text); err != nil || [2]uint32{a, b} != want {
			t.Errorf("%q: %d to %d, %v", text, a, b, err)
		}
	}
	for _, text := range []string{"", "-", "9-8", "1-", "-1", "1-2-3", "x", "4294967296"} {
		if _, _, err := ParseRange(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func FuzzParseAck(f *testing.F) {
	f.Add(ackVector)
	f.Add("grattoir ack v1\nterminal a\n")
	f.Fuzz(func(t *testing.T, text string) {
		if a, err := ParseAck(text); err == nil && a.Text() != text {
			t.Fatal("accepted, but writes another text")
		}
	})
}

func FuzzParseSnapshot(f *testing.F) {
	f.Add(snapshotVector)
	f.Add(snapshotVector2)
	f.Add("grattoir snapshot v1\nversion 1\nissued 2026-11-30T12:00:00.123Z\nblocks 0\n")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseSnapshot(text); err == nil && s.Text() != text {
			t.Fatal("accepted, but writes another text")
		}
	})
}

func FuzzParseEnrolCode(f *testing.F) {
	f.Add("AAAQ-EAYE-AUDA-OCAJ-777P-37H3-7L47-R57W")
	f.Add("aaaq eaye auda ocaj 777p 37h3 7l47 r57w")
	f.Fuzz(func(t *testing.T, text string) {
		s, p, err := ParseEnrolCode(text)
		if err != nil {
			return
		}
		if s2, p2, err := ParseEnrolCode(EncodeEnrolCode(s, p)); err != nil || s2 != s || p2 != p {
			t.Fatal("accepted, but reads as another code when written again")
		}
	})
}
