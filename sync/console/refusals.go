package console

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/report"
	"grattoir/validate"
)

// refusalTexts are central's refusals in the languages of the house. A kind without a text
// fails a test.
func refusalTexts() map[central.Because]report.Text {
	return map[central.Because]report.Text{
		central.BecauseRunTooLong:          {FR: "il faut une suite de 1 à %d livrets", EN: "want a run of 1 to %d packs"},
		central.BecausePackUnknown:         {FR: "le livret %d n'est d'aucun bloc publié de ce code de jeu", EN: "pack %d lies in no published block of this game code"},
		central.BecauseCodeUnknown:         {FR: "aucun bloc du code de jeu %.12q n'est publié", EN: "no block of game code %.12q is published"},
		central.BecauseTerminalUnknown:     {FR: "le terminal %.64q n'est pas connu", EN: "terminal %.64q is not known"},
		central.BecauseReceiverSuspended:   {FR: "le terminal %s est suspendu : il ne peut pas recevoir de livrets", EN: "terminal %s is suspended: it may receive no packs"},
		central.BecauseNotAllDelivered:     {FR: "seuls %d d'entre eux ont été livrés à quelqu'un", EN: "only %d of them were delivered to anybody"},
		central.BecauseOwnedAlready:        {FR: "le livret %d est déjà à %s", EN: "pack %d is owned by %s already"},
		central.BecauseNotReleased:         {FR: "%s n'a pas libéré le livret %d. De force, personne ne le paie tant que le journal de ce terminal n'est pas arrivé, ou passé en perte", EN: "%s has not released pack %d. By force nobody pays it until that terminal's journal is here, or was written off"},
		central.BecauseWhyMissing:          {FR: "dites qui l'a décidé et pourquoi, en %d octets au plus", EN: "say who decided it and why, in at most %d bytes"},
		central.BecauseNoneWaits:           {FR: "aucun n'attend le journal d'un terminal", EN: "none of them waits for a terminal's journal"},
		central.BecauseOwnPlace:            {FR: "un terminal ne peut pas prendre sa propre place", EN: "a terminal cannot take its own place"},
		central.BecauseReasonTooLong:       {FR: "%d octets de motif, au plus %d", EN: "%d bytes of reason, at most %d"},
		central.BecauseReversalUnknown:     {FR: "le terminal ne l'a pas demandée, ou son journal est en retard", EN: "the terminal has not asked for it, or its journal is late"},
		central.BecauseReversalDecided:     {FR: "elle est déjà décidée (%s, %s)", EN: "it was decided (%s, %s)"},
		central.BecauseReversalNotCredited: {FR: "le paiement n'est pas crédité ici comme la demande le dit : il n'y a rien à libérer ; refusez-la, et voyez les conflits", EN: "the payment is not credited here as the request has it, so there is nothing to free: refuse it, and see the conflicts"},
		central.BecauseLiableMissing:       {FR: "qui le supporte : l'un de %s, quand il est réglé", EN: "who bears it: one of %s, when it is settled"},
		central.BecauseConflictUnknown:     {FR: "aucune écriture de ce numéro n'est un conflit", EN: "no entry of that number is a conflict"},
		central.BecauseConflictStands:      {FR: "le conflit est %s ; possible maintenant : %s", EN: "the conflict is %s; legal now: %s"},
		central.BecauseRoleMissing:         {FR: "%.32q : une identité est pour les utilisateurs du rôle security", EN: "%.32q: an identity is for users of the role security"},
		central.BecauseEntryUnknown:        {FR: "l'écriture %v du terminal %.64q n'est pas connue", EN: "entry %v of terminal %.64q is not known"},
		central.BecauseEntryNoPayment:      {FR: "l'écriture %v du terminal %.64q n'est pas un paiement", EN: "entry %v of terminal %.64q is no payment"},
		central.BecauseIdentityUnknown:     {FR: "paiement %.32q : aucune identité relevée, ou elle n'est pas arrivée, ou elle est effacée", EN: "payment %.32q: no identity was recorded, or it has not arrived, or it is erased"},
		central.BecauseTextBounds:          {FR: "%d octets : il en faut 1 à %d, imprimables, sur une ligne", EN: "%d bytes: want 1 to %d, printable, on one line"},
		central.BecauseAgreeSelf:           {FR: "demande %d : %s l'a faite, une autre personne doit donner son accord", EN: "request %d: %s asked for it, so somebody else must agree"},
		central.BecauseAgreedAlready:       {FR: "demande %d : %s a déjà donné son accord", EN: "request %d: %s agreed already"},
		central.BecauseRequestOld:          {FR: "demande %d : elle a plus de %v, demandez de nouveau", EN: "request %d: it is older than %v, ask again"},
		central.BecauseIdentityErased:      {FR: "demande %d : l'identité a été effacée à son terme", EN: "request %d: the identity was erased after its term"},
		central.BecauseRequestUnknown:      {FR: "il n'y a pas de demande %d", EN: "there is no request %d"},
		central.BecauseRequestOfOther:      {FR: "demande %d : %s l'a faite, et lit", EN: "request %d: %s asked for it, and looks"},
		central.BecauseNobodyAgreed:        {FR: "demande %d : personne n'a donné son accord", EN: "request %d: nobody has agreed to it"},
		central.BecauseOpenedAlready:       {FR: "demande %d : lue le %s, demandez de nouveau", EN: "request %d: it was opened at %s, ask again"},
		central.BecauseAgreementOld:        {FR: "demande %d : accord de plus de %v, demandez de nouveau", EN: "request %d: it was agreed to more than %v ago, ask again"},
		central.BecauseOperatorMissing:     {FR: "il faut le nom de qui agit, 64 octets au plus", EN: "an act needs the name of its operator, at most 64 bytes"},
		central.BecauseAudienceTwice:       {FR: "un message va à un terminal, à une région ou à tous", EN: "a message goes to one terminal, to a region, or to all"},
		central.BecauseMessageBounds:       {FR: "un message a 1 à %d octets imprimables en français et en anglais", EN: "a message has 1 to %d printable bytes in French and in English"},
		central.BecauseFirstDay:            {FR: "premier jour : %v", EN: "first day: %v"},
		central.BecauseLastDay:             {FR: "dernier jour : %v", EN: "last day: %v"},
		central.BecauseMessageOver:         {FR: "son dernier jour %s est passé avant qu'on puisse le lire", EN: "its last day %s is over before it can be read"},
		central.BecauseNobodyMeant:         {FR: "aucun terminal n'est visé", EN: "no terminal is meant"},
		central.BecauseMessageUnknown:      {FR: "ce message n'est pas en cours", EN: "no such message is out"},
		central.BecausePolicyWithdrawn:     {FR: "la version %s a été retirée : donnez-lui une version plus récente", EN: "version %s was withdrawn: give it a newer version"},
		central.BecausePolicyOld:           {FR: "sa version %s n'est pas plus récente que %s, qui est publiée : les versions ne font que monter", EN: "its version %s is not newer than %s, which is published: versions only rise"},
		central.BecausePolicyUnknown:       {FR: "cette politique n'est pas publiée", EN: "no such policy is listed"},
		central.BecausePolicySize:          {FR: "%d octets, au plus %d : ce n'est pas une politique", EN: "%d bytes, at most %d: it is no policy"},
		central.BecausePolicyWrong:         {FR: "cette politique ne vaut pas : %v", EN: "this policy does not count: %v"},
		central.BecauseBlockUnknown:        {FR: "ce bloc n'est pas publié", EN: "no such block is published"},
		central.BecauseSalesEnded:          {FR: "plus aucun livret du bloc %d du jeu %s, émission %s n'est mis en vente : %s", EN: "no more packs of block %d of game %s, emission %s are put on sale: %s"},
		central.BecauseEmissionMissing:     {FR: "le numéro d'un bloc compte dans son émission : nommez-la", EN: "a block's number counts in its emission: name the emission too"},
		central.BecauseReasonBounds:        {FR: "il faut un motif de 1 à %d octets", EN: "an act needs a reason of 1 to %d bytes"},
		central.BecauseStoppedAlready:      {FR: "ses paiements sont déjà arrêtés (%s)", EN: "its payments are stopped already (%s)"},
		central.BecauseTerminalShutOut:     {FR: "toutes les demandes de %s sont refusées : il faut l'inscrire de nouveau", EN: "every request of %s is refused: it has to be enrolled again"},
		central.BecauseNotStopped:          {FR: "il est « %s » et ses paiements ne sont pas arrêtés", EN: "it is %s and its payments are not stopped"},
		central.BecauseTerminalUnknownHere: {FR: "ce terminal n'est pas connu", EN: "this terminal is not known"},
		central.BecausePackStands:          {FR: "le livret %d est %s ; possible maintenant : %s", EN: "pack %d is %s; legal now: %s"},
		central.BecauseBlockSuspended:      {FR: "le jeu %s, émission %s, bloc %d est suspendu (%s) : aucun livret n'est mis en vente avant la reprise", EN: "game %s, emission %s, block %d is suspended (%s): none of its packs is put on sale before it is resumed"},
		central.BecausePackPaid:            {FR: "des tickets du livret %d ont été payés, le premier est le %d : reprenez ceux qui n'ont pas été vendus, par tickets", EN: "tickets of pack %d were paid, the first is %d: return those that were not sold, by tickets"},
		central.BecausePackUnknownHere:     {FR: "le livret n'est d'aucun bloc publié de ce code de jeu", EN: "the pack lies in no published block of this game code"},
		central.BecauseTicketRange:         {FR: "ses livrets ont les tickets %d à %d", EN: "its packs have the tickets %d to %d"},
		central.BecauseWholePack:           {FR: "le livret entier est %s", EN: "the whole pack is %s"},
		central.BecauseNotAllStolen:        {FR: "tous ne sont pas volés ; le sont : %s", EN: "not all of them are stolen; stolen are: %s"},
		central.BecauseStolenAlready:       {FR: "certains sont déjà volés : %s", EN: "some of them are stolen already: %s"},
		central.BecauseTicketActs:          {FR: "par tickets, on peut reprendre, déclarer volés, ou lever la déclaration", EN: "single tickets can be returned, stolen or recovered"},
		central.BecausePackNotDelivered:    {FR: "le livret n'a été livré à personne", EN: "the pack was delivered to nobody"},
		central.BecauseReturnedAlready:     {FR: "certains sont déjà revenus : %s", EN: "some of them were returned already: %s"},
		central.BecauseTicketRuns:          {FR: "trop de suites de tickets pour un livret : %v", EN: "too many runs of tickets for a pack: %v"},
		central.BecausePackForgotten:       {FR: "le centre a été rétabli d'une sauvegarde et a pu donner le livret %d depuis : il attend la parole de chaque terminal, ou d'une personne", EN: "central was put back from a backup, and may have given pack %d away since: it waits for every terminal's word, or for a person's"},
		central.BecauseSettleRule:          {FR: "règle de règlement : %v", EN: "rule of settlement: %v"},
		central.BecauseSalesEndedAlready:   {FR: "sa mise en vente est déjà arrêtée", EN: "its sales are ended already"},
		central.BecauseSalesNotEnded:       {FR: "sa mise en vente n'est pas arrêtée", EN: "its sales are not ended"},
		central.BecauseSuspendedAlready:    {FR: "il est déjà suspendu", EN: "it is suspended already"},
		central.BecauseNotSuspended:        {FR: "il n'est pas suspendu par lui-même", EN: "it is not suspended by itself"},
		central.BecauseClaimsAllowed:       {FR: "les paiements en ligne sont déjà permis", EN: "claims are allowed already"},
		central.BecausePageRows:            {FR: "%d lignes : il en faut 1 à 1000", EN: "%d rows: want 1 to 1000"},
		central.BecausePageEnd:             {FR: "%.80q n'est pas la fin d'une page : reprenez à la première page", EN: "%.80q is no end of a page: begin at the first page"},
		central.BecauseReleaseOther:        {FR: "cette version a été annoncée avec d'autres octets", EN: "this version was announced with other bytes"},
	}
}

// refusalWords writes a refusal in the reader's language. One of a kind that has no text is
// told in central's own words, which are English.
func (s sheet) refusalWords(r *central.Refusal) string {
	text, ok := refusalTexts()[r.Because]
	if !ok {
		return r.Error()
	}
	args := make([]any, len(r.Args))
	for i, a := range r.Args {
		args[i] = s.argument(a)
	}
	return fmt.Sprintf(text.In(s.lang), args...)
}

// argument is what is particular to a refusal, in words where it is one of ours.
func (s sheet) argument(a any) any {
	switch a := a.(type) {
	case validate.PackState:
		return s.Word(string(a))
	case central.ConflictState:
		return s.ConflictState(central.Conflict{State: a})
	case central.TerminalState:
		return s.Word(string(a))
	case validate.ReversalState:
		return s.Word("reversal-" + string(a))
	case time.Time:
		return s.When(a)
	case []string:
		words := make([]string, len(a))
		for i, code := range a {
			words[i] = s.Word(code)
		}
		return strings.Join(words, ", ")
	}
	return a
}

// told gives the reader's words for an error of central or of a report.
func (c *console) told(r *http.Request, err error) string {
	s := sheet{frame: frame{lang: languageOf(r), W: wordsIn(languageOf(r))}, zone: c.opt.Zone}
	var refusal *central.Refusal
	switch {
	case errors.Is(err, errChanged):
		return s.T("ce que cela touche a changé depuis votre regard : regardez de nouveau", errChanged.Error())
	case errors.As(err, &refusal):
		return s.refusalWords(refusal)
	case errors.Is(err, central.ErrNotFound):
		return s.T("le centre ne connaît pas cela : ", "central does not know this: ") + err.Error()
	case errors.Is(err, central.ErrRefused):
		return s.T("le centre refuse : ", "central refuses: ") + err.Error()
	}
	return c.explain(r, err)
}
