package validate

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"grattoir/validate/money"
)

// words are a reason's texts in one language, by the name of their place.
func words(r Reason, l money.Language) map[string]string {
	x := r.Text(l)
	return map[string]string{"word": x.Word, "clerk": x.Clerk, "next": x.Next, "player": x.Player}
}

func TestEveryReasonHasWordsThatFitTheClerksScreen(t *testing.T) {
	codes := map[string]Reason{}
	for _, r := range Reasons() {
		if other, twice := codes[r.Code()]; twice || !regexp.MustCompile(`^V[0-9]{1,2}$`).MatchString(r.Code()) {
			t.Errorf("%s: code %q (also of %q)", r, r.Code(), other)
		}
		codes[r.Code()] = r
		if tech := r.Technician(); len(tech) < 20 || strings.Contains(tech, "\n") || !strings.HasSuffix(tech, ".") {
			t.Errorf("%s: technician %q", r, tech)
		}
		for _, l := range []money.Language{money.French, money.English} {
			for place, text := range words(r, l) {
				lines := strings.Split(text, "\n")
				if text == "" || len(lines) > 2 || len(lines) > 1 && (place == "word" || place == "player") {
					t.Errorf("%s %s, %s: %d lines: %q", r, l, place, len(lines), text)
				}
				for _, line := range lines {
					if n := utf8.RuneCountInString(line); n > 32 && place != "player" || strings.TrimSpace(line) != line {
						t.Errorf("%s %s, %s: %d columns: %q", r, l, place, n, line)
					}
				}
				if place == "word" && strings.ToUpper(text) != text || place != "word" && !strings.HasSuffix(text, ".") {
					t.Errorf("%s %s, %s: %q", r, l, place, text)
				}
			}
		}
	}
}

func TestTextsAreOfTheirLanguage(t *testing.T) {
	for _, r := range Reasons() {
		fr, en := words(r, money.French), words(r, money.English)
		for place, text := range fr {
			if same := text == en[place]; same && place != "word" {
				t.Errorf("%s, %s: one text for both languages: %q", r, place, text)
			}
			// In French ; : ! ? and the inside of « » stand apart by a space that never breaks.
			if bad := regexp.MustCompile("(^|[^\u00a0])[;:!?»]|«([^\u00a0]|$)|\u00a0([^;:!?»]|$)").FindString(strings.ReplaceAll(text, "«\u00a0", "")); bad != "" {
				t.Errorf("%s, %s: %q in %q", r, place, bad, text)
			}
			if bad := regexp.MustCompile(`[’‘"]|'\s|\s'|  |\s[.,]`).FindString(text); bad != "" {
				t.Errorf("%s, %s: %q in %q", r, place, bad, text)
			}
		}
		for place, text := range en {
			if bad := regexp.MustCompile("\u00a0|[«»’‘\"éèàçê]|\\s[.,;:!?]|  ").FindString(text); bad != "" {
				t.Errorf("%s, %s: %q in %q", r, place, bad, text)
			}
		}
	}
}

// TestWordsTellNoOutcomeThatMustNotBeTold looks at the reasons that come before the ticket
// is proven and its pack is known to be on sale, and at those where a person decides.
func TestWordsTellNoOutcomeThatMustNotBeTold(t *testing.T) {
	from := slices.Index(Reasons(), AlreadyPaidHere)
	silent := append(slices.Clone(Reasons()[:from]), Misprint, ClockNotTrusted)
	tells := regexp.MustCompile(`(?i)gagn|perd|\blots?\b|\bgains?\b|\bwins?\b|won|winner|prize|lose|[0-9€]`)
	for _, r := range silent {
		for _, l := range []money.Language{money.French, money.English} {
			for place, text := range words(r, l) {
				if found := tells.FindString(text); found != "" {
					t.Errorf("%s %s, %s: %q tells %q", r, l, place, text, found)
				}
			}
		}
	}
}

func TestUnknownReasonReadsAsOneThatPaysNothing(t *testing.T) {
	if got := Reason("something new").Text(money.French); got != ManifestDamaged.Text(money.French) {
		t.Errorf("%+v", got)
	}
}

func TestAskingForHiddenDigitsFitsTheClerksScreen(t *testing.T) {
	for _, l := range []money.Language{money.French, money.English} {
		x := TypeDigits(22, l)
		for _, line := range strings.Split(x.Clerk+"\n"+x.Next+"\n"+x.Word, "\n") {
			if n := utf8.RuneCountInString(line); n > 32 {
				t.Errorf("%s: %d columns: %s", l, n, line)
			}
		}
	}
}
