"""temporary"""
import re, json
from typing import Any
import dspy
from dspy.utils.exceptions import AdapterParseError
from rsso_dspy.playing import get_playing
from rsso_dspy.regions import join_items
def label(n): return n.replace("_"," ").capitalize()
class ChatAdapter(dspy.ChatAdapter):
    def _call_preprocess(self, lm, lm_kwargs, signature, inputs):
        rollout, usual = get_playing().rollout, getattr(lm, "kwargs", {}).get("temperature")
        if rollout is not None and getattr(lm, "cache", False) and lm_kwargs.get("temperature", usual):
            lm_kwargs.setdefault("rollout_id", rollout)
        s = super()._call_preprocess(lm, lm_kwargs, signature, inputs)
        for n in get_playing().unasked:
            if n in s.output_fields: s = s.delete(n)
        return s
    def _call_postprocess(self, ps, os_, *rest):
        vs = super()._call_postprocess(ps, os_, *rest)
        for v in vs:
            for n in os_.output_fields: 
                if v.get(n) is None: v[n] = ""
        return vs
    def show(self, sig, vals):
        out=[]
        for n,f in sig.input_fields.items():
            v=vals.get(n)
            if not v or n=="history": continue
            t = join_items(v) if isinstance(v,list) and all(isinstance(x,str) for x in v) else v if isinstance(v,str) else json.dumps(v,default=str)
            d=f.json_schema_extra.get("desc","")
            d=f" ({d})" if d and d!="${%s}"%n else ""
            out.append(f"{label(n)}{d}:{chr(10) if chr(10) in t else ' '}{t}")
        return "\n".join(out)
    def answer(self, sig, vals):
        outs=[n for n in sig.output_fields if vals.get(n)]
        return "\n".join(f"{label(n)}: {vals[n]}" for n in outs)
    def format(self, signature, demos, inputs):
        o=signature.output_fields
        f=lambda x: x.json_schema_extra.get("desc","")
        islist=lambda x: "list" in str(x.annotation)
        if len(o)==1:
            n=next(iter(o)); form=f"Answer with the {label(n).lower()} alone{', one a line' if islist(o[n]) else ''}: {f(o[n])}."
        else:
            form="Answer in this form:\n"+"\n".join(f"{label(n)}: {'one a line: ' if islist(x) else ''}{f(x)}" for n,x in o.items())
        sysm=signature.instructions+"\n\n"+form
        if demos:
            sysm+="\n\nExamples:\n"+"\n\n".join(f"Example {i}\n{self.show(signature,d)}\n{self.answer(signature,d)}" for i,d in enumerate(demos,1))
        h=inputs.get("history"); turns=h.messages if h is not None else []
        names=list(signature.input_fields); at=names.index("history") if "history" in names else len(names)
        first={n:inputs[n] for n in names[:at] if n in inputs}; now={n:inputs[n] for n in names[at+1:] if n in inputs}
        if get_playing().layout=="paper":
            hist="\n\n".join(self.show(signature,t)+"\n"+(t.get("said") or self.answer(signature,t)) for t in turns)
            text="\n".join(filter(None,[self.show(signature,first), f"History:\n{hist}" if hist else "", self.show(signature,now)]))
            return [{"role":"system","content":sysm},{"role":"user","content":text}]
        ms=[]
        for k,t in enumerate([*turns,now]):
            text="\n".join(filter(None,[self.show(signature,first) if k==0 else "", self.show(signature,t)]))
            if ms and ms[-1]["role"]=="user": ms[-1]["content"]+="\n\n"+text
            else: ms.append({"role":"user","content":text})
            if k<len(turns):
                a=t["said"] if "said" in t else self.answer(signature,t)
                if a: ms.append({"role":"assistant","content":a})
        return [{"role":"system","content":sysm},*ms]
    def parse(self, signature, completion):
        led=get_playing().ledger
        if led: led.said=completion
        labels="|".join(label(n) for n in signature.output_fields)
        p=re.split(rf"^({labels}|Thought|Subgoal):[ \n]?",completion,flags=re.M)
        got={l.lower().replace(" ","_"):t.strip() for l,t in zip(p[1::2],p[2::2])}
        o=signature.output_fields
        if len(o)==1 and not got: got={next(iter(o)):completion.strip()}
        res={}
        for n,x in o.items():
            if n not in got:
                if n in ("thought","subgoal","what_went_wrong"): res[n]=""; continue
                if led: led.unread(completion)
                raise AdapterParseError("Chat",signature,completion)
            v=got[n]
            if "list" in str(x.annotation):
                if v.startswith("[") : v=json.loads(v)
                elif v=="none": v=[]
                else: v=[r.lstrip("- ").strip() for r in v.splitlines() if r.strip()]
                from dspy.adapters.utils import parse_value
                v=parse_value(v,x.annotation)
            elif x.annotation is int: v=int(v)
            res[n]=v
        return res
class JSONAdapter(ChatAdapter): pass
