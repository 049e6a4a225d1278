import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { forceLinting, lintGutter, lintKeymap, linter } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useImperativeHandle, useRef, type Ref } from "react";
import type { Mark } from "./text";

export interface EditorHandle {
  goTo: (mark: Mark) => void;
}

interface Props {
  ref?: Ref<EditorHandle>;
  label: string;
  text: string;
  readOnly: boolean;
  onChange: (text: string) => void;
  // check returns the problems of a text. It is called when typing has paused.
  check: (text: string) => Promise<Mark[]>;
}

// CodeEditor is an editor for YAML. The tab key leaves it, as it does any field.
export function CodeEditor({ ref, label, text, readOnly, onChange, check }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  const changed = useRef(onChange);
  const shown = useRef(text);
  useEffect(() => {
    changed.current = onChange;
    shown.current = text;
  });

  useEffect(() => {
    const editor = new EditorView({
      parent: host.current!,
      state: EditorState.create({ doc: shown.current, extensions: [...extensions(label, readOnly, check), EditorView.updateListener.of((u) => u.docChanged && changed.current(u.state.doc.toString()))] }),
    });
    view.current = editor;
    forceLinting(editor);
    return () => editor.destroy();
  }, [label, readOnly, check]);

  // The text is changed from outside when it is discarded.
  useEffect(() => {
    const editor = view.current!;
    if (editor.state.doc.toString() !== text) editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: text } });
  }, [text]);

  useImperativeHandle(ref, () => ({
    goTo: (mark) => {
      const editor = view.current!;
      const at = Math.min(mark.from, editor.state.doc.length);
      editor.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "center" }) });
      editor.focus();
    },
  }));

  return <div ref={host} className="editor" />;
}

function extensions(label: string, readOnly: boolean, check: Props["check"]): Extension[] {
  return [
    lineNumbers(),
    history(),
    drawSelection(),
    indentOnInput(),
    bracketMatching(),
    highlightActiveLine(),
    highlightSelectionMatches(),
    yaml(),
    syntaxHighlighting(colors),
    look,
    lintGutter(),
    linter(async (editor) => problems(await check(editor.state.doc.toString()), editor), { delay: 500 }),
    keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap, ...lintKeymap]),
    EditorState.readOnly.of(readOnly),
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0", ...(readOnly && { "aria-readonly": "true" }) }),
  ];
}

// problems are shown for the text that was checked only.
function problems(marks: Mark[], editor: EditorView) {
  const length = editor.state.doc.length;
  return marks.map((mark) => ({ from: Math.min(mark.from, length), to: Math.min(mark.to, length), severity: "error" as const, message: mark.message }));
}

const colors = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--yaml-key)" },
  { tag: [tags.string, tags.content], color: "var(--yaml-text)" },
  { tag: [tags.comment, tags.lineComment], color: "var(--yaml-comment)", fontStyle: "italic" },
  { tag: [tags.punctuation, tags.separator, tags.squareBracket, tags.brace], color: "var(--yaml-comment)" },
]);

const look = EditorView.theme({
  "&": { border: "1px solid var(--line)", borderRadius: "4px", fontSize: "13px", backgroundColor: "var(--mantine-color-body)" },
  "&.cm-focused": { outline: "2px solid var(--mantine-primary-color-filled)" },
  ".cm-scroller": { fontFamily: "var(--mantine-font-family-monospace)", maxHeight: "65vh", minHeight: "240px", overflow: "auto" },
  ".cm-gutters": { backgroundColor: "var(--bar)", color: "var(--mantine-color-dimmed)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "var(--yaml-line)" },
  ".cm-content": { caretColor: "var(--mantine-color-text)" },
  ".cm-cursor": { borderLeftColor: "var(--mantine-color-text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--yaml-selection)" },
  ".cm-tooltip, .cm-panels": { backgroundColor: "var(--mantine-color-body)", color: "var(--mantine-color-text)", borderColor: "var(--line)" },
  ".cm-panels input, .cm-panels button": { backgroundColor: "var(--mantine-color-body)", backgroundImage: "none", color: "var(--mantine-color-text)", border: "1px solid var(--line)" },
});
