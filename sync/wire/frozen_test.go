package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// What follows was shipped. What a terminal has paid is taken from every program that
// ever was, so none of these bytes may change: a test that fails here is right, and the
// change is wrong.
const (
	frozenUpload = `{"protocol":1,"epoch":1,"from":17,"lines":["{\"v\":1,\"a\":\"<&>\"}"],"to":{"epoch":1,"seq":17,"hash":"` + someHash + `"},"signature":"MEUCIQ=="}` + "\n"
	frozenAnswer = `{"protocol":1,"acked":"note","exceptions":[{"seq":17,"kind":"double-claim","text":"words"}]}`
	frozenBehind = `{"kind":"behind","text":"words","acked":{"epoch":1,"seq":16,"hash":"` + someHash + `"}}`
)

func TestJournalUploadIsFrozenForEver(t *testing.T) {
	if PathJournal != "/v1/journal" || MaxEntries < 200 || MaxLine < 16<<10 || MaxUpload < 4<<20 {
		t.Errorf("path %s, at most %d lines of %d bytes, %d in all", PathJournal, MaxEntries, MaxLine, MaxUpload)
	}
	u := Upload{Protocol: 1, Epoch: 1, From: 17, Lines: []string{`{"v":1,"a":"<&>"}`}, To: position(), Signature: "MEUCIQ=="}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(u); err != nil || text.String() != frozenUpload {
		t.Errorf("an upload is\n%s%v", text.String(), err)
	}
	same(t, frozenUpload, u)
	same(t, frozenAnswer, UploadAnswer{Protocol: 1, Acked: "note", Exceptions: []Exception{{17, DoubleClaim, "words"}}})
	held := position()
	held.Seq = 16
	same(t, frozenBehind, Error{Kind: KindBehind, Text: "words", Acked: &held})
	for kind, text := range map[any]string{DoubleClaim: "double-claim", ClaimUnproven: "claim-unproven", WrongPrize: "wrong-prize", NoRight: "no-right", UnknownKind: "unknown-kind",
		KindBadRequest: "bad-request", KindTooLarge: "too-large", KindForbidden: "forbidden", KindBehind: "behind", KindFork: "fork", KindBusy: "busy", KindInternal: "internal"} {
		if got := reflect.ValueOf(kind).String(); got != text {
			t.Errorf("%q is written %q", text, got)
		}
	}
}

// same reads a text as it was shipped, with a field of a later program in it.
func same[T any](t *testing.T, text string, want T) {
	t.Helper()
	for _, text := range []string{text, `{"later":{"field":1},` + text[1:]} {
		var got T
		if err := json.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\nreads as %+v: %v", text, got, err)
		}
	}
}
